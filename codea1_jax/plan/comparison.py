"""A step as it was measured, next to what the plan of its layout forecasts: whether a run does what was planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codea1_jax.config import METHODS, Config, load
from codea1_jax.devices.chips import find_hardware
from codea1_jax.plan.arithmetic.lengths import read_lengths
from codea1_jax.plan.arithmetic.planned_run import make_planned_run, model_shape
from codea1_jax.plan.forecast import step_calls
from codea1_jax.plan.planned import Planned, read_plans

# Which phases of a plan make what a run reports the seconds of.
TIMED = {
    "generate_code": ("weights code", "prefill code", "insert code", "decode code"),
    "generate_tests": ("weights test", "prefill test", "insert test", "decode test"),
    "update_code": ("score-old code", "score-ref code", "gradient code", "clear code", "update code"),
    "update_test": ("score-old test", "score-ref test", "gradient test", "clear test", "update test"),
}


@dataclass(frozen=True)
class StepForecast:
    """The plan that was made of a configuration's layout."""

    config: Config
    plan: Planned

    def seconds(self, rollouts: Path) -> dict[str, float]:
        """Forecast of a step from its own lengths, which `rollouts/step_N.jsonl` has: seconds by what is timed.

        Judging is left out. Raises UserError if the step has no suite at all, or no program.
        """
        run = make_planned_run(self.config, find_hardware(self.plan.hardware))
        calls = step_calls(run, 1.0, read_lengths(rollouts)).calls
        each = {phase: expected for phase, (_, expected) in self.plan.call_seconds.items()}
        return {
            part: sum(sum(calls[phase].values()) * each[phase] for phase in timed if phase in calls)
            for part, timed in TIMED.items()
        }

    def compared(self, measured: Mapping[str, float], rollouts: Path) -> str:
        """What was measured (a run's `seconds/...`), with the forecast behind it, and which part is most unlike it."""
        forecast = {part: seconds for part, seconds in self.seconds(rollouts).items() if seconds}
        taken = {part: measured[f"seconds/{part}"] for part in forecast}
        ratios = {part: taken[part] / forecast[part] for part in forecast}
        worst = max(ratios, key=lambda part: max(ratios[part], 1 / ratios[part]))
        parts = ", ".join(f"{part.replace('_', ' ')} {taken[part]:.1f} ({forecast[part]:.1f})" for part in forecast)
        return (
            f"{sum(taken.values()):.1f} s without judging, where {sum(forecast.values()):.1f} are forecast: {parts}; "
            f"furthest from its forecast: {worst.replace('_', ' ')}, {ratios[worst]:.2f} times"
        )


def find_forecast(config: Config, devices: Sequence[Any]) -> StepForecast | None:
    """The shipped plan of this very layout, if `devices` are those that it was made for.

    None for a supervised method: its steps record no lengths.
    """
    if config.hardware is None or METHODS[config.method.name].supervised:
        return None
    hardware = find_hardware(config.hardware)
    if len(devices) != hardware.devices or any(device.device_kind not in hardware.chip.kinds for device in devices):
        return None
    wanted = _layout(config)
    for name, plan in read_plans().plans.items():
        if plan.hardware == config.hardware and _layout(load(Config, name)) == wanted:
            return StepForecast(config, plan)
    return None


def _layout(config: Config) -> tuple[object, ...]:
    """What the seconds of a call depend on."""
    model = config.model.model_copy(update={"pretrained": None, "architecture": None})
    packing = config.code.packing, config.test.packing
    return model_shape(config.model), model, config.mesh, config.lora, config.offload, config.rollout, packing
