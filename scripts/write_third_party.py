"""Writes THIRD_PARTY.md: the packages that are installed with this one, and their licences by their own metadata."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TARGET = Path(__file__).parent.parent / "THIRD_PARTY.md"
DISTRIBUTION = "codea1-jax"
EXTRAS = ("", "jetstream", "plan", "serve", "eval")  # those that run on a host without an accelerator
NOT_USED = {"seqio"}  # requirements/overrides.txt leaves it out

HEAD = """# Third-party packages

<!-- Written by scripts/write_third_party.py from the installed packages' metadata. -->

Code-A1 in JAX is licensed under Apache-2.0 (see LICENSE). It contains no third-party code. It implements the method
of Wang et al., *Code-A1: Adversarial Evolving of Code LLM and Test LLM via Reinforcement Learning* (arXiv 2603.15611).

These packages are installed with it, under their own licences; indirect ones are dependencies of the direct ones. The
licences come from the packages' metadata. Not listed: what the extras for GPUs and TPUs add to JAX (NVIDIA's CUDA
libraries and Google's libtpu, under their makers' terms), `wandb` (MIT), `bigcodebench` (what its tasks import), and
what only developers need.

| package | licence | |
| --- | --- | --- |
"""


def page() -> str:
    """The whole page, in Markdown."""
    direct = set().union(*(_required(DISTRIBUTION, extra) for extra in EXTRAS))
    known = {name for name, _ in direct}
    waiting, seen = list(direct), set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) not in seen and name not in NOT_USED:
            seen.add((name, extra))
            waiting += _required(name, extra)
    names = sorted({name for name, _ in seen})
    return HEAD + "".join(f"| {name} | {_licence(name)} | {'' if name in known else 'indirect'} |\n" for name in names)


def _required(name: str, extra: str) -> set[tuple[str, str]]:
    """What a package, or an extra of it, asks for here: as (name, "") and, for extras of that, (name, extra)."""
    found: set[tuple[str, str]] = set()
    for requirement in map(Requirement, metadata.requires(name) or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            other = canonicalize_name(requirement.name)
            if other == DISTRIBUTION:  # an extra that takes in others
                found = found.union(*(_required(other, inner) for inner in requirement.extras))
            else:
                found |= {(other, ""), *((other, inner) for inner in requirement.extras)}
    return found


def _licence(name: str) -> str:
    """The expression, else the classifiers, else the first line of the text."""
    about = metadata.metadata(name)
    classified = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier") or () if c.startswith("License :: ")]
    expression, text = (" ".join(about.get_all(field) or ()) for field in ("License-Expression", "License"))
    stated = expression or ", ".join(c for c in classified if c != "OSI Approved")
    return stated or text.strip().partition("\n")[0] or "see the package"


if __name__ == "__main__":
    TARGET.write_text(page())
    print(TARGET)
