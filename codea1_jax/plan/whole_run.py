"""How long a whole run takes: its steps, and what is done between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from codea1_jax.config import Config
from codea1_jax.devices.chips import Hardware
from codea1_jax.plan.arithmetic.lengths import draw_groups
from codea1_jax.plan.arithmetic.memory import saved
from codea1_jax.plan.arithmetic.workload import QUESTIONS, PlannedRun, evaluation_loads
from codea1_jax.plan.forecast import JUDGED_PER_CORE, sampling_calls

# Assumed: a device's copy to its host over PCIe, a host's upload to a bucket, and what a first start takes to read
# weights and to compile (libtpu takes 3 to 10 minutes for a preset on two cores of a laptop).
COPIED_PER_SECOND = 10e9
WRITTEN_PER_SECOND = 1e9
START_SECONDS = 600.0


@dataclass(frozen=True)
class WholeRun:
    """Seconds of a run: of all steps, all evaluations, the saves that steps wait for, and the first start."""

    num_steps: int
    num_evaluations: int
    steps: float
    evaluations: float
    saving: float
    start: float

    @property
    def seconds(self) -> float:
        """The whole run."""
        return self.steps + self.evaluations + self.saving + self.start


def whole_run(
    run: PlannedRun, hardware: Hardware, fill: float, step_seconds: float, call_seconds: Mapping[str, float]
) -> WholeRun:
    """What a run takes if a step takes `step_seconds`. It trains on the paper's questions, or on `data.limit` of them.

    call_seconds: of a call of each phase, averaged over those of a step.
    """
    config = run.config
    steps = config.train.total_steps(min(QUESTIONS, config.data.limit or QUESTIONS))
    evaluations, evaluation = count_evaluations(config, steps), evaluation_seconds(run, hardware, fill, call_seconds)
    saves = -(-steps // config.checkpoint.every)
    return WholeRun(
        num_steps=steps,
        num_evaluations=evaluations,
        steps=steps * step_seconds,
        evaluations=evaluations * evaluation,
        saving=saves * saving_seconds(run, hardware, step_seconds),
        start=START_SECONDS,
    )


def count_evaluations(config: Config, steps: int) -> int:
    """Evaluations of a run: before the first step, every `eval.every` steps, and after the last."""
    every = config.eval.every
    return len({0, steps, *range(0, steps, every)}) if every else 0


def evaluation_seconds(run: PlannedRun, hardware: Hardware, fill: float, call_seconds: Mapping[str, float]) -> float:
    """Seconds of an evaluation: its samples go through a step's programs, or its own ("evaluate"), and are judged."""
    loads = {
        load: tuple(draw_groups(replace(load, prompts=prompts, samples=samples), fill))
        for load, prompts, samples in evaluation_loads(run.config)
    }
    each = {**call_seconds, **{f"decode {load.role}": _decoding_seconds(load.role, call_seconds) for load in loads}}
    calls = sampling_calls(run, loads).calls
    sampling = sum(sum(by_shape.values()) * each[phase] for phase, by_shape in calls.items())
    judged = sum(prompts * samples for _, prompts, samples in evaluation_loads(run.config))
    return sampling + judged / (JUDGED_PER_CORE * hardware.chip.host_cores * hardware.devices)


def _decoding_seconds(role: str, call_seconds: Mapping[str, float]) -> float:
    return call_seconds.get(f"evaluate {role}", call_seconds[f"decode {role}"])


def saving_seconds(run: PlannedRun, hardware: Hardware, step_seconds: float) -> float:
    """Seconds that training waits for a save: for its copy to the hosts, and for an upload that outlasts the steps."""
    bytes_ = saved(run.config, run.model)
    upload = bytes_ / hardware.hosts / WRITTEN_PER_SECOND
    waited = max(0.0, upload - run.config.checkpoint.every * step_seconds)
    return bytes_ / hardware.devices / COPIED_PER_SECOND + waited
