"""A step as it was measured, next to what the plan of its layout forecasts: whether a run does what was planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import jax

from codea1_jax.common.chips import find_hardware, hardware_of
from codea1_jax.config import METHODS, Config, load
from codea1_jax.plan.arithmetic.lengths import read_lengths
from codea1_jax.plan.arithmetic.planned_run import make_planned_run, model_shape
from codea1_jax.plan.forecast import step_calls
from codea1_jax.plan.planned import Planned, read_plans


def find_forecast(config: Config) -> Callable[[Mapping[str, float], Path], str] | None:
    """`compare` with the shipped plan of this very layout, if it was made for the devices of this process.

    None for a supervised method: its steps record no lengths.
    """
    if config.hardware is None or METHODS[config.method.name].supervised:
        return None
    if not find_hardware(config.hardware).is_like(hardware_of(jax.devices())):
        return None
    layout = _layout(config)
    for name, plan in read_plans().plans.items():
        if plan.hardware == config.hardware and _layout(load(Config, name)) == layout:
            return partial(compare, config, plan)
    return None


def compare(config: Config, plan: Planned, measured: Mapping[str, float], rollouts: Path) -> str:
    """What a step took (a run's `seconds/...`), with the forecast behind it, and which part is most unlike it."""
    forecast = {part: seconds for part, seconds in forecast_of(config, plan, rollouts).items() if seconds}
    taken = {part: measured[f"seconds/{part}"] for part in forecast}
    ratios = {part: taken[part] / forecast[part] for part in forecast}
    worst = max(ratios, key=lambda part: max(ratios[part], 1 / ratios[part]))
    parts = ", ".join(f"{part.replace('_', ' ')} {taken[part]:.1f} ({forecast[part]:.1f})" for part in forecast)
    return (
        f"{sum(taken.values()):.1f} s without judging, where {sum(forecast.values()):.1f} are forecast: {parts}; "
        f"furthest from its forecast: {worst.replace('_', ' ')}, {ratios[worst]:.2f} times"
    )


def forecast_of(config: Config, plan: Planned, rollouts: Path) -> dict[str, float]:
    """Forecast of a step from its own lengths, which `rollouts/step_N.jsonl` has: seconds, by a run's "seconds/...".

    Judging is left out. Raises UserError if the step has no suite at all, or no program.
    """
    names = {("code", True): "generate_code", ("test", True): "generate_tests"}
    run = make_planned_run(config, find_hardware(plan.hardware))
    forecast: dict[str, float] = {}
    for phase, calls in step_calls(run, 1.0, read_lengths(rollouts)).calls.items():
        part = names.get((phase.owner, phase.is_sampling), f"update_{phase.owner}")
        forecast[part] = forecast.get(part, 0.0) + calls.count * plan.call_seconds[str(phase)][1]
    return forecast


def _layout(config: Config) -> tuple[object, ...]:
    """What the seconds of a call depend on."""
    models = [
        (model_shape(model), model.model_copy(update={"pretrained": None, "architecture": None}))
        for model in (learner.model or config.model for learner in config.learners.values())
    ]
    own = [(learner.packing, config.lora_of(name), config.drawn_at(name)) for name, learner in config.learners.items()]
    return models, config.mesh, config.offload, config.rollout, own
