"""Plans hardware presets and writes docs/plan.md: `make plan-all`, or `make plan-all PRESETS="1.5b/a1_v5e"`.

Only presets of the paper's own method are planned: other methods on the same hardware need no more. A compilation takes
minutes; the documents are rewritten after every preset, and keep earlier plans of other presets.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from codea1_jax.cli.plan import progress
from codea1_jax.config import Config, load, preset_names
from codea1_jax.models.chips import find_hardware
from codea1_jax.plan.plan import least_seconds, make_plan
from codea1_jax.plan.planned import Planned, Plans, markdown, markdown_phases, read_plans, write_plans
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.table import conclusion, planned, rich_table
from codea1_jax.plan.workload import phases

DOCUMENT = Path(__file__).parents[1] / "docs" / "plan.md"
FILL = 0.25  # mean length of prompts and responses, as a share of the longest allowed
QUESTIONS = 9_688  # that the paper trains on
HEAD = f"""# Hardware presets, planned

Written by `make plan-all`. TPU presets are compiled by libtpu for their topology, at the longest prompts and responses
allowed; GPU presets are estimated by arithmetic alone. Two policies and their two optimizers stay in memory throughout,
with the frozen reference that both policies start from. Times are lower bounds: the best that the chips could do, with
prompts and responses at {FILL:.0%} of the longest on average, without judging.

"""


def main(names: list[str]) -> int:
    """Plans the named presets, or all; 1 if one does not fit."""
    names = names or [name for name in preset_names() if re.fullmatch(r".*/a1(_lora)?_[vh]\d+\w", name)]
    console, plans = Console(stderr=True), dict(read_plans().plans)
    for name in names:
        config = load(Config, name)
        if config.hardware is None:
            continue
        with progress() as watch:
            plan = make_plan(config, find_hardware(config.hardware), FILL, watch)
        plans[name] = planned(plan)
        console.print(rich_table(plan, f"{name} on {config.hardware}"), *conclusion(plan), sep="\n")
        write(plans)
    return int(not all(plans[name].fits for name in names if name in plans))


def write(plans: Mapping[str, Planned]) -> None:
    """Writes both documents, with all plans so far."""
    plans = {name: plans[name] for name in sorted(plans)}
    write_plans(Plans(plans, hours(plans)))
    sections = "\n".join(f"## {name}\n\n{markdown_phases(plan)}" for name, plan in plans.items())
    DOCUMENT.write_text(f"{HEAD}{markdown(plans)}\n{sections}")


def hours(plans: Mapping[str, Planned]) -> dict[str, float]:
    """Lower bounds for a whole run of every hardware preset, from the plan of the same phases if there is one."""
    found, known = {}, {}
    for name in sorted(preset_names(), key=lambda name: name not in plans):  # what is planned first
        config = load(Config, name)
        if config.hardware is None:
            continue
        hardware = find_hardware(config.hardware)
        run = make_planned_run(config, hardware)
        alike = (hardware, run.model, tuple(phases(run, FILL)))
        if alike not in known:
            known[alike] = plans[name].seconds if name in plans else least_seconds(run, hardware, FILL)
        found[name] = round(config.train.total_steps(QUESTIONS) * known[alike] / 3600, 1)
    return {name: found[name] for name in sorted(found)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
