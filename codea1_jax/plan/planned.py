"""What `make plan-all` has found out, shipped with the package: plans of the hardware presets, and hours of training.

Needs no JAX: `codea1 presets` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("planned.yaml")
HEAD = "# Written by `make plan-all`; docs/plan.md explains it. hours: of the steps at least, expected of a run.\n"


@dataclass(frozen=True)
class Planned:
    """A preset's plan on its hardware.

    memory: GiB a device in the fullest phase, of `available`. limit: seconds of a step that no program can beat.
    seconds: the least for a step of this layout. expected: seconds of a step. tokens_per_second: drawn, by the expected
    seconds. learning_mfu: the share of the peak that useful FLOPs of learning reach, in its expected seconds; 0 of a
    plan that does not fit. call_seconds: of a call of each phase, least and expected, the latter averaged over the
    calls of a step.
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
    for plan in tree["plans"].values():
        plan["call_seconds"] = _pairs(plan["call_seconds"])
    plans = {name: Planned(**plan) for name, plan in tree["plans"].items()}
    return Plans(plans, _pairs(tree["hours"]), tree["compilers"])


def _pairs(tree: Mapping[str, list[float]]) -> dict[str, tuple[float, float]]:
    return {name: (least, expected) for name, (least, expected) in tree.items()}


def write_plans(plans: Plans, file: Path = FILE) -> None:
    """Replaces what was found out before."""
    tree = {
        "compilers": plans.compilers,
        "plans": {
            name: asdict(plan) | {"call_seconds": {phase: [*both] for phase, both in plan.call_seconds.items()}}
            for name, plan in plans.plans.items()
        },
        "hours": {name: [*both] for name, both in plans.hours.items()},
    }
    text = yaml.safe_dump(tree, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    file.write_text(HEAD + text, encoding="utf-8")
