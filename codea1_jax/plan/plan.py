"""The plan of a run on some hardware: what fits, the least that a step takes, and what step and run are expected to."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from codea1_jax.common.chips import Hardware
from codea1_jax.config import Config
from codea1_jax.models.flops import Number
from codea1_jax.plan.assumptions import COPIED_PER_SECOND, JUDGED_PER_CORE, START_SECONDS, WRITTEN_PER_SECOND
from codea1_jax.plan.compiler import Compiled, Outcome, ProgramName, Report, compile_programs
from codea1_jax.plan.forecast import Calls, StepCalls, expected_seconds, sampling_calls, step_calls, waiting_seconds
from codea1_jax.plan.memory import refuse_what_cannot_fit, saved, suggested_fix
from codea1_jax.plan.phases import Work, layout_table
from codea1_jax.plan.planned_run import PlannedRun, make_planned_run
from codea1_jax.plan.workload import QUESTIONS, Phase, draw_groups, evaluation_loads


@dataclass(frozen=True)
class Row:
    """One phase of the plan.

    work: at its largest. seconds: the least of one call. compiled: its largest program. calls: expected in a step.
    expected_seconds: of these calls; 0 if the compiler refused the phase. fix: what to change if it does not fit.
    """

    phase: Phase
    work: Work
    seconds: float
    compiled: Outcome
    calls: Number
    expected_seconds: float
    fix: str | None

    @property
    def step_seconds(self) -> float:
        return self.work.calls * self.seconds

    @property
    def memory(self) -> int | None:
        return self.compiled.memory if isinstance(self.compiled, Compiled) else None


@dataclass(frozen=True)
class Plan:
    """All phases of a step.

    fill: mean length of prompts and responses, as a share of the longest allowed; by it the floor is counted, and the
    expected lengths are drawn. judging: seconds that a step waits for verdicts and scores.
    """

    run: PlannedRun
    hardware: Hardware
    rows: tuple[Row, ...]
    fill: float
    step: StepCalls
    judging: float

    @property
    def fits(self) -> bool:
        return all(row.fix is None for row in self.rows)

    @property
    def floor(self) -> float:
        return sum(row.step_seconds for row in self.rows)

    @property
    def expected_seconds(self) -> float:
        """What a step is expected to take, judging included as if sampling hid none of it."""
        return sum(row.expected_seconds for row in self.rows) + self.judging

    @property
    def whole(self) -> "WholeRun":
        return whole_run(self.run, self.hardware, self.fill, self.expected_seconds, self.call_seconds)

    @property
    def call_seconds(self) -> dict[Phase, float]:
        """Expected seconds of a call of each phase, averaged over those of a step.

        A block of an evaluation takes what one of a step does, and what its program takes longer.
        """
        average = {row.phase: row.expected_seconds / row.calls for row in self.rows if row.calls}
        largest = {row.phase: row.compiled.seconds for row in self.rows if isinstance(row.compiled, Compiled)}
        for phase, seconds in largest.items():
            decode = Phase("decode", phase.owner)
            if phase.kind == "evaluate" and decode in largest:
                average[phase] = average[decode] + seconds - largest[decode]
        return average

    @property
    def learning_utilization(self) -> float:
        """The model FLOPs utilization expected of learning: scoring, gradients and updates, of both policies.

        Recomputed and padded places are not counted among the useful FLOPs; what the host does is in the seconds.
        """
        learning = [row for row in self.rows if not row.phase.is_sampling]
        useful, seconds = sum(row.work.useful for row in learning), sum(row.expected_seconds for row in learning)
        return useful / (seconds * self.hardware.chip.flops * self.hardware.devices)

    @property
    def tokens_per_second(self) -> float:
        return self.step.drawn / self.expected_seconds


def make_plan(config: Config, hardware: Hardware, fill: float, report: Report) -> Plan:
    """Compiles every phase: at its largest, and at the smaller shapes that a step's calls mostly have.

    Raises UserError, before anything is compiled, if it cannot fit, or the mesh does not suit hardware or model; and
    what `compile_programs` raises.
    """
    run = make_planned_run(config, hardware)
    refuse_what_cannot_fit(run, hardware)
    table, step = layout_table(run, fill), step_calls(run, fill)
    compiled = compile_programs(config, hardware, [*map(ProgramName, table), *step.smaller_programs(run)], report)
    rows = []
    for phase, work in table.items():
        calls, largest = step.calls.get(phase, Calls({})), compiled[ProgramName(phase)]
        received, fits = 0.0, False
        if isinstance(largest, Compiled):  # the compiler alone knows what a call exchanges
            received, fits = largest.received, largest.memory <= hardware.chip.memory
        rows.append(
            Row(
                phase=phase,
                work=work,
                seconds=replace(work, received=received).seconds(hardware),
                compiled=largest,
                calls=calls.count,
                expected_seconds=expected_seconds(run, hardware, phase, calls, compiled),
                fix=None if fits else suggested_fix(run, phase, hardware.chip.memory),
            )
        )
    return Plan(run, hardware, tuple(rows), fill, step, waiting_seconds(config, hardware, step))


def as_document(plan: Plan) -> dict[str, Any]:
    return {
        "fits": plan.fits,
        "compiled": all(isinstance(row.compiled, Compiled) for row in plan.rows),
        "topology": plan.hardware.name,
        "memory_per_device": plan.hardware.chip.memory,
        "floor_seconds": plan.floor,
        "expected_seconds": plan.expected_seconds,
        "phases": {
            str(row.phase): {
                "memory": row.memory,
                "calls": row.calls,
                "floor_seconds": row.step_seconds,
                "expected_seconds": row.expected_seconds,
                "fix": row.fix,
            }
            for row in plan.rows
        },
    }


# --- the whole run ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WholeRun:
    num_steps: int
    num_evaluations: int
    steps: float
    evaluations: float
    saving: float
    start: float

    @property
    def seconds(self) -> float:
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
