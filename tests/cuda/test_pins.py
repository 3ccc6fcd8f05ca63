"""What the images for GPUs install is pinned."""

from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement

LOCK = Path(__file__).parents[2] / "requirements" / "lock.txt"


def test_the_cuda_libraries_that_jax_asks_for_are_pinned():
    lines = map(Requirement, LOCK.read_text().splitlines())
    here = (line for line in lines if line.marker is None or line.marker.evaluate())
    pins = {line.name: str(line.specifier).removeprefix("==") for line in here}
    wanted = [Requirement(line) for line in requires("jax-cuda12-plugin") or []]
    wanted = [requirement for requirement in wanted if requirement.marker is None or "with-cuda" in str(requirement)]
    assert len(wanted) > 10
    assert pins["jax-cuda12-plugin"] == pins["jax-cuda13-plugin"] == version("jax")
    assert all(requirement.specifier.contains(pins[requirement.name]) for requirement in wanted)
