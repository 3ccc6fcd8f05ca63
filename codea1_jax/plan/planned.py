"""What `make plan-all` has found out, shipped with the package: plans of the hardware presets, and hours of training.

Needs no JAX: `codea1 presets` reads it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("planned.yaml")
HEAD = "# Written by `make plan-all`; docs/plan.md explains it. hours: of the steps at least, expected of a run.\n"


@dataclass(frozen=True)
class Planned:
    """A preset's plan on its hardware.

    memory: GiB a device in the fullest phase, of `available`. seconds: of a step, at least. expected: likewise.
    tokens_per_second: drawn, by the expected seconds. learning_mfu: the share of the peak that useful FLOPs of learning
    reach, in its expected seconds; 0 of a plan that does not fit.
    """

    hardware: str
    fits: bool
    memory: float
    available: float
    fullest: str
    seconds: float
    expected: float
    tokens_per_second: float
    learning_mfu: float


@dataclass(frozen=True)
class Plans:
    """All that is planned.

    compilers: the packages that compiled the plans, with their versions. hours: least and expected of every preset for
    some hardware, also of those that share another one's plan.
    """

    compilers: str
    plans: Mapping[str, Planned]
    hours: Mapping[str, Sequence[float]]


def read_plans(file: Path = FILE) -> Plans:
    tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    return Plans(tree["compilers"], {name: Planned(**plan) for name, plan in tree["plans"].items()}, tree["hours"])


def write_plans(plans: Plans, file: Path = FILE) -> None:
    text = yaml.safe_dump(asdict(plans), sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    file.write_text(HEAD + text, encoding="utf-8")
