import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sandbox import Limits, SandboxPool

FAST = Limits(call_seconds=0.2, load_seconds=0.8, program_seconds=4.0, wall_factor=2.5, memory_mb=256)


@pytest.fixture(scope="session")
def jail() -> Iterator[SandboxPool]:
    """Two jailed workers, with tight limits so that hostile programs cost little."""
    with SandboxPool(workers=2, backend="nsjail", limits=FAST) as pool:
        yield pool


@pytest.fixture(scope="session", params=["nsjail", "process"])
def pool(request: pytest.FixtureRequest, jail: SandboxPool) -> Iterator[SandboxPool]:
    """A pool of each kind, for what must hold in both."""
    if request.param == "nsjail":
        yield jail
    else:
        with SandboxPool(workers=2, backend="process", limits=FAST) as plain:
            yield plain


@pytest.fixture(scope="session")
def numpy_jail() -> Iterator[SandboxPool]:
    """Two jailed workers with numpy and patience."""
    limits = Limits(call_seconds=5.0, program_seconds=60.0, memory_mb=1024)
    with SandboxPool(workers=2, backend="nsjail", preload=("numpy",), limits=limits) as pool:
        yield pool


@pytest.fixture
def busy(request: pytest.FixtureRequest) -> Iterator[None]:
    """Work for each core of this machine: as many processes as the parameter says."""
    spin = [sys.executable, "-S", "-c", "while True: pass"]
    neighbours = [subprocess.Popen(spin) for _ in range(request.param * (os.cpu_count() or 1))]
    yield
    for neighbour in neighbours:
        neighbour.kill()
        neighbour.wait()
