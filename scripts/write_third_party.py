"""Writes the table of THIRD_PARTY.md: the packages that are installed with this one, and their licences by their own
metadata. What stands above it in the page stays as it is.
"""

from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TARGET = Path(__file__).parent.parent / "THIRD_PARTY.md"
DISTRIBUTION = "codea1-jax"
OWN = {DISTRIBUTION, "codea1-judge"}
EXTRAS = ("", "jetstream", "plan", "serve", "eval")  # those that run on a host without an accelerator
NOT_USED = {"seqio"}  # requirements/overrides.txt leaves it out
RULER = "| --- | --- | --- |\n"  # above the packages


def page() -> str:
    direct = set().union(*(_required(DISTRIBUTION, extra) for extra in EXTRAS))
    known = {name for name, _ in direct}
    waiting, seen = list(direct), set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) not in seen and name not in NOT_USED:
            seen.add((name, extra))
            waiting += _required(name, extra)
    names = sorted({name for name, _ in seen})
    rows = (f"| {name} | {_licence(name)} | {'' if name in known else 'indirect'} |\n" for name in names)
    return "".join([TARGET.read_text().partition(RULER)[0], RULER, *rows])


def _required(name: str, extra: str) -> set[tuple[str, str]]:
    """What a package, or an extra of it, asks for here: as (name, "") and, for extras of that, (name, extra)."""
    found: set[tuple[str, str]] = set()
    for requirement in map(Requirement, metadata.requires(name) or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            other = canonicalize_name(requirement.name)
            if other in OWN:
                found = found.union(*(_required(other, inner) for inner in ("", *requirement.extras)))
            else:
                found |= {(other, ""), *((other, inner) for inner in requirement.extras)}
    return found


def _licence(name: str) -> str:
    about = metadata.metadata(name)
    classified = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier") or () if c.startswith("License :: ")]
    expression, text = (" ".join(about.get_all(field) or ()) for field in ("License-Expression", "License"))
    stated = expression or ", ".join(c for c in classified if c != "OSI Approved")
    return stated or text.strip().partition("\n")[0] or "see the package"


if __name__ == "__main__":
    TARGET.write_text(page())
    print(TARGET)
