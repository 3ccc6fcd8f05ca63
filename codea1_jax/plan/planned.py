"""What `make plan-all` has found out, shipped with the package: plans of the hardware presets, and hours of training.

Needs no JAX: `codea1 presets` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("planned.yaml")
HEAD = "# Written by `make plan-all`; docs/plan.md explains the figures. hours: the least for a whole run.\n"
COLUMNS = ("preset", "hardware", "fits", "GiB/chip", "of", "fullest phase", "step s ≥", "tokens/s ≤", "MFU ≤")
PHASE_COLUMNS = ("phase", "GiB/chip", "calls", "TFLOP", "GB recv.", "s/call", "bound by", "s/step")


@dataclass(frozen=True)
class Planned:
    """A preset's plan on its hardware.

    compiled: for a TPU; else by arithmetic, and `memory` is the least it needs. memory: GiB a device in the
    fullest phase, of `available`. seconds: the least for a step. phases: as `PHASE_COLUMNS` has them.
    """

    hardware: str
    compiled: bool
    fits: bool
    memory: float
    available: float
    fullest: str
    seconds: float
    tokens_per_second: float
    mfu: float
    phases: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Plans:
    """All that is planned. hours: by preset, of every one that is made for some hardware, whether compiled or not."""

    plans: Mapping[str, Planned]
    hours: Mapping[str, float]


def read_plans(file: Path = FILE) -> Plans:
    """What was found out so far."""
    tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    plans = {
        name: Planned(**{**plan, "phases": tuple(map(tuple, plan["phases"]))}) for name, plan in tree["plans"].items()
    }
    return Plans(plans, tree["hours"])


def write_plans(plans: Plans, file: Path = FILE) -> None:
    """Replaces what was found out before."""
    trees = {
        name: {**asdict(plan), "phases": [list(cells) for cells in plan.phases]} for name, plan in plans.plans.items()
    }
    tree = {"plans": trees, "hours": dict(plans.hours)}
    text = yaml.safe_dump(tree, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    file.write_text(HEAD + text, encoding="utf-8")


def markdown(plans: Mapping[str, Planned]) -> str:
    """A line a plan."""
    rows = [
        (
            *(name, plan.hardware, "yes" if plan.fits else "no"),
            f"{plan.memory:.2f}" if plan.compiled else f"≥ {plan.memory:.2f}",
            *(f"{plan.available:.2f}", plan.fullest),
            *(f"{plan.seconds:.4g}", f"{plan.tokens_per_second:.4g}", f"{plan.mfu:.1%}"),
        )
        for name, plan in plans.items()
    ]
    return _table(COLUMNS, rows)


def markdown_phases(plan: Planned) -> str:
    """The phases of a plan, a line each."""
    return _table(PHASE_COLUMNS, plan.phases)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
