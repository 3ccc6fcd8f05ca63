"""How long a whole run takes: its steps, and what is done between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codea1_jax.common.chips import Hardware
from codea1_jax.config import Config
from codea1_jax.plan.arithmetic.lengths import draw_groups
from codea1_jax.plan.arithmetic.memory import saved
from codea1_jax.plan.arithmetic.planned_run import PlannedRun
from codea1_jax.plan.arithmetic.workload import QUESTIONS, Phase, evaluation_loads
from codea1_jax.plan.assumptions import COPIED_PER_SECOND, JUDGED_PER_CORE, START_SECONDS, WRITTEN_PER_SECOND
from codea1_jax.plan.forecast import sampling_calls


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
    run: PlannedRun, hardware: Hardware, fill: float, step_seconds: float, call_seconds: Mapping[Phase, float]
) -> WholeRun:
    """What a run takes if a step takes `step_seconds`. It trains on `data.limit` questions, or as many as the paper.

    call_seconds: of a call of each phase, averaged over those of a step.
    """
    config = run.config
    steps = config.train.total_steps(config.data.limit or QUESTIONS)
    evaluations, evaluation = count_evaluations(config, steps), evaluation_seconds(run, hardware, fill, call_seconds)
    saves = -(-steps // config.checkpoint.every)
    return WholeRun(
        num_steps=steps,
        num_evaluations=evaluations,
        steps=steps * step_seconds,
        evaluations=evaluations * evaluation,
        saving=saves * saving_seconds(run, hardware, step_seconds),
        start=START_SECONDS[hardware.platform],
    )


def count_evaluations(config: Config, steps: int) -> int:
    """Evaluations of a run: before the first step, every `eval.every` steps, and after the last."""
    every = config.eval.every
    return len({0, steps, *range(0, steps, every)}) if every else 0


def evaluation_seconds(run: PlannedRun, hardware: Hardware, fill: float, call_seconds: Mapping[Phase, float]) -> float:
    """Seconds of an evaluation: its samples go through a step's programs, or its own ("evaluate"), and are judged."""
    loads = {load: tuple(draw_groups(load, fill)) for load in evaluation_loads(run.config)}
    seconds = sum(len(groups) * load.samples for load, groups in loads.items()) / (
        JUDGED_PER_CORE * hardware.chip.host_cores * hardware.devices
    )
    for load, groups in loads.items():
        for phase, calls in sampling_calls(run, {load: groups}).items():
            own = Phase("evaluate", phase.owner) if phase.kind == "decode" else phase
            seconds += calls.count * call_seconds.get(own, call_seconds[phase])
    return seconds


def saving_seconds(run: PlannedRun, hardware: Hardware, step_seconds: float) -> float:
    """Seconds that training waits for a save: for its copy to the hosts, and for an upload that outlasts the steps."""
    bytes_ = saved(run.config, run.shapes)
    upload = bytes_ / hardware.hosts / WRITTEN_PER_SECOND
    waited = max(0.0, upload - run.config.checkpoint.every * step_seconds)
    return bytes_ / hardware.devices / COPIED_PER_SECOND + waited
