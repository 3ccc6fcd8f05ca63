"""What first_light.sh needs of Python: which wheels a machine lacks, and a random model.

python first_light.py wheels DIR          paths of the wheels in DIR to install
python first_light.py model DIRECTORY     Qwen2.5-Coder-1.5B with random weights and Qwen's vocabulary
"""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path


@dataclass(frozen=True)
class Package:
    """A package's version and what it requires, lines as its metadata has them."""

    version: str
    requires: tuple[str, ...]


def wheels_to_install(directory: Path) -> list[Path]:
    """The carried wheels of packages that this Python lacks, or has in a version that does not suit the others."""
    paths = {_name(wheel.name.partition("-")[0]): wheel for wheel in sorted(directory.glob("*.whl"))}
    found = importlib.metadata.distributions()
    installed = {_name(each.name): Package(each.version, tuple(each.requires or ())) for each in found}
    sys.path.append(str(paths["packaging"]))  # Python imports from a wheel as it is
    carried = {name: _carried(wheel) for name, wheel in paths.items()}
    return [paths[name] for name in chosen(carried, installed)]


def chosen(carried: Mapping[str, Package], installed: Mapping[str, Package]) -> list[str]:
    """The carried packages to install, so that all that are carried, or there instead, suit each other."""
    taken = {name for name in carried if name not in installed}
    while True:
        used = {name: carried[name] if name in taken else installed[name] for name in carried}
        unmet = next(((name, needed) for name, needed in _unmet(used) if {name, needed} - taken), None)
        if unmet is None:
            return sorted(taken)
        name, needed = unmet
        taken.add(name if needed in taken else needed)


def _unmet(used: Mapping[str, Package]) -> Iterator[tuple[str, str]]:
    """Pairs of a package and one that it requires in another version."""
    from packaging.requirements import Requirement  # noqa: PLC0415  not installed everywhere

    for name, package in used.items():
        for requirement in map(Requirement, package.requires):
            needed = _name(requirement.name)
            here = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if here and needed in used and not requirement.specifier.contains(used[needed].version, prereleases=True):
                yield name, needed


def _carried(wheel: Path) -> Package:
    with zipfile.ZipFile(wheel) as files:
        [metadata] = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        fields = Parser().parsestr(files.read(metadata).decode(), headersonly=True)
    return Package(fields["Version"], tuple(fields.get_all("Requires-Dist", ())))


def _name(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def write_model(directory: Path) -> None:
    """Weights in bfloat16: 3 GB."""
    import jax.numpy as jnp  # noqa: PLC0415  not there where wheels are chosen
    from qwen_vocabulary import make_tokenizer, read_ranks  # noqa: PLC0415  # pyright: ignore[reportMissingImports]

    from codea1_jax.models.policy import write_random_model  # noqa: PLC0415  same
    from codea1_jax.models.published import QWEN25  # noqa: PLC0415  same

    write_random_model(directory, QWEN25["1.5b"], make_tokenizer(read_ranks()), jnp.bfloat16)


if __name__ == "__main__":
    match sys.argv[1:]:
        case "wheels", directory:
            print(*wheels_to_install(Path(directory)), sep="\n")
        case "model", directory:
            write_model(Path(directory))
        case _:
            sys.exit(__doc__)
