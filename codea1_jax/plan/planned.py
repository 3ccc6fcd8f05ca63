"""What `make plan-all` has found out, shipped with the package: plans of the hardware presets, and hours of training.

Needs no JAX: `codea1 presets` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("planned.yaml")
HEAD = "# Written by `make plan-all`; docs/plan.md explains it. hours: of the steps at least, expected of a run.\n"
COLUMNS = (
    *("preset", "hardware", "fits", "GiB/chip", "of", "fullest phase"),
    *("limit s", "step s ≥", "step s expected", "tokens/s", "MFU of learning"),
)
PHASE_COLUMNS = (
    *("phase", "GiB/chip", "temporaries", "calls", "TFLOP", "GB recv."),
    *("bound by", "s/step ≥", "s/step expected", "mostly"),
)


@dataclass(frozen=True)
class Planned:
    """A preset's plan on its hardware.

    memory: GiB a device in the fullest phase, of `available`. limit: seconds of a step that no program can beat
    (`limit`). seconds: the least for a step of this layout. expected: seconds of a step. tokens_per_second: drawn, by
    the expected seconds. learning_mfu: the share of the peak that useful FLOPs of learning reach, in its expected
    seconds; 0 of a plan that does not fit. call_seconds: of a call of each phase, least and expected, the latter
    averaged over the calls of a step. phases: as `PHASE_COLUMNS` has them. failed: a line for each smaller program that
    the compiler could not make.
    """

    hardware: str
    fits: bool
    memory: float
    available: float
    fullest: str
    limit: float
    seconds: float
    expected: float
    tokens_per_second: float
    learning_mfu: float
    call_seconds: Mapping[str, tuple[float, float]]
    phases: tuple[tuple[str, ...], ...]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plans:
    """All that is planned.

    compilers: the packages that compiled the plans, with their versions. hours: least and expected of every preset for
    some hardware, also of those that share another one's plan.
    """

    plans: Mapping[str, Planned]
    hours: Mapping[str, tuple[float, float]]
    compilers: str = ""


def read_plans(file: Path = FILE) -> Plans:
    """What was found out so far."""
    tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    plans = {name: _planned(plan) for name, plan in tree["plans"].items()}
    hours = {name: (least, expected) for name, (least, expected) in tree["hours"].items()}
    return Plans(plans, hours, tree["compilers"])


def _planned(tree: Mapping[str, Any]) -> Planned:
    seconds = {phase: (least, expected) for phase, (least, expected) in tree["call_seconds"].items()}
    return Planned(
        **{
            **tree,
            "call_seconds": seconds,
            "phases": tuple(map(tuple, tree["phases"])),
            "failed": tuple(tree.get("failed", ())),
        }
    )


def write_plans(plans: Plans, file: Path = FILE) -> None:
    """Replaces what was found out before."""
    trees = {
        name: {
            **asdict(plan),
            "call_seconds": {phase: list(both) for phase, both in plan.call_seconds.items()},
            "phases": [list(cells) for cells in plan.phases],
            "failed": list(plan.failed),
        }
        for name, plan in plans.plans.items()
    }
    hours = {name: list(both) for name, both in plans.hours.items()}
    tree = {"compilers": plans.compilers, "plans": trees, "hours": hours}
    text = yaml.safe_dump(tree, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    file.write_text(HEAD + text, encoding="utf-8")


def markdown(plans: Mapping[str, Planned]) -> str:
    """A line a plan."""
    rows = [
        (
            *(name, plan.hardware, "yes" if plan.fits else "no"),
            *(f"{plan.memory:.2f}", f"{plan.available:.2f}", plan.fullest),
            *(f"{plan.limit:.4g}", f"{plan.seconds:.4g}", f"{plan.expected:.4g}", f"{plan.tokens_per_second:.0f}"),
            f"{plan.learning_mfu:.1%}",
        )
        for name, plan in plans.items()
    ]
    return _table(COLUMNS, rows)


def markdown_phases(plan: Planned) -> str:
    """The phases of a plan, a line each; and what could not be compiled."""
    return _table(PHASE_COLUMNS, plan.phases) + "".join(f"\n{line}\n" for line in plan.failed)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
