"""Plans hardware presets and writes docs/plan.md: `make plan-all`, or `make plan-all PRESETS="1.5b/a1_v5e"`.

Only presets of the paper's own method are planned: other methods run some of the same phases. A preset takes minutes;
the documents are rewritten after each, with the hours of all methods on its layout, and keep what was planned of other
layouts. What has been compiled is kept in .cache/plan, so that a sweep that was stopped takes less time again.
"""

import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load, preset_names
from codea1_jax.plan.forecast import StepCalls, step_calls, waiting_seconds
from codea1_jax.plan.phases import layout_table
from codea1_jax.plan.plan import Plan, make_plan, whole_run
from codea1_jax.plan.planned import Planned, Plans, read_plans, write_plans
from codea1_jax.plan.planned_run import PlannedRun, make_planned_run
from codea1_jax.plan.table import conclusion, markdown, plan_table, planned
from codea1_jax.plan.worker import compilers

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "plan.md"
FILL = 0.25  # mean length of prompts and responses, as a share of the longest allowed; docs/plan.md says so
COMPILED = "Compiled by "  # begins what is written of the document; what stands above stays as it is


def main(names: list[str]) -> int:
    wanted = names or [name for name in preset_names() if re.fullmatch(r".*/a1(_lora)?_[a-z]+\d+[a-z]?(x\d+)?", name)]
    console, fits = Console(stderr=True), True
    for name in wanted:
        config, started = load(Config, name), time.monotonic()
        if config.hardware is None:
            continue
        plan = make_plan(config, find_hardware(config.hardware), FILL, console.print)
        fits = fits and plan.fits
        console.print(plan_table(plan, f"{name} on {config.hardware}"), *conclusion(plan), sep="\n")
        console.print(f"planned in {time.monotonic() - started:.0f} s")
        shipped = read_plans()
        write({**shipped.plans, name: planned(plan)}, {**shipped.hours, **hours(name, plan)})
    return int(not fits)


def write(plans: Mapping[str, Planned], hours: Mapping[str, Sequence[float]]) -> None:
    plans = {name: plans[name] for name in sorted(plans) if name in preset_names()}
    hours = {name: hours[name] for name in sorted(hours) if name in preset_names()}
    write_plans(Plans(compilers(), plans, hours))
    head = DOCUMENT.read_text().partition(COMPILED)[0]
    DOCUMENT.write_text(f"{head}{COMPILED}{compilers()}.\n\n{markdown(plans)}")


def hours(planned_name: str, plan: Plan) -> dict[str, tuple[float, float]]:
    """Hours of every preset on a planned layout: the least that its steps take, and what its whole run should take."""
    found: dict[str, tuple[float, float]] = {}
    for name in (name for name in preset_names() if _planned_like(name) == planned_name):
        run = make_planned_run(load(Config, name), plan.hardware)
        step = step_calls(run, FILL)
        least, expected = step_seconds(run, step, plan)
        whole = whole_run(run, plan.hardware, FILL, expected, plan.call_seconds)
        found[name] = round(whole.num_steps * least / 3600, 2), round(whole.seconds / 3600, 2)
    return found


def _planned_like(name: str) -> str:
    model, _, rest = name.partition("/")
    lora = "_lora" if "_lora" in rest else ""
    return f"{model}/a1{lora}_{rest.rpartition('_')[2]}"


def step_seconds(run: PlannedRun, step: StepCalls, plan: Plan) -> tuple[float, float]:
    each = {row.phase: row.seconds for row in plan.rows}
    least = sum(work.calls * each[phase] for phase, work in layout_table(run, FILL).items())
    expected = {phase: calls.count * plan.call_seconds[phase] for phase, calls in step.calls.items()}
    return least, sum(expected.values()) + waiting_seconds(run.config, plan.hardware, step)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
