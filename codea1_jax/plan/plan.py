"""The plan of a run on some hardware: what fits, what bounds it, the least that a step takes, and what is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from codea1_jax.config import Config
from codea1_jax.devices.chips import GIB, Hardware
from codea1_jax.models.flops import Number
from codea1_jax.plan.arithmetic.lengths import Lengths
from codea1_jax.plan.arithmetic.memory import refuse_what_cannot_fit, resident, suggested_fix
from codea1_jax.plan.arithmetic.planned_run import make_planned_run
from codea1_jax.plan.arithmetic.simulation import Sampled
from codea1_jax.plan.arithmetic.workload import Phase, PlannedRun, is_sampling, phases, sampled_tokens
from codea1_jax.plan.calibration import Ratios, ratio_of
from codea1_jax.plan.compiled.compiler import Compiled, Failed, Outcome, ProgramName, Refused, Watch, compile_programs
from codea1_jax.plan.forecast import StepCalls, expected_seconds, judging_seconds, scoring_seconds, step_calls
from codea1_jax.plan.limit import limit_seconds
from codea1_jax.plan.whole_run import WholeRun, whole_run


@dataclass(frozen=True)
class Row:
    """One phase of the plan.

    seconds: of one call by resource, none of which can be undercut. compiled: its largest program. calls: expected in a
    step. expected: seconds of these calls, by what they are spent on; none if the compiler refused the phase.
    """

    phase: Phase
    seconds: Mapping[str, float]
    compiled: Outcome
    calls: Number
    expected: Mapping[str, float]
    fix: str | None

    @property
    def bound(self) -> str:
        """The resource that the phase waits for."""
        return max(self.seconds, key=lambda resource: self.seconds[resource])

    @property
    def step_seconds(self) -> float:
        """The least seconds of all the phase's calls in a step."""
        return self.phase.calls * self.seconds[self.bound]

    @property
    def expected_seconds(self) -> float:
        """Of all its calls in a step."""
        return sum(self.expected.values())

    @property
    def memory(self) -> int | None:
        """Bytes on a device while it runs; None if the compiler found no room."""
        return self.compiled.memory if isinstance(self.compiled, Compiled) else None

    @property
    def temporaries(self) -> int:
        """Bytes of a device's memory that are neither arguments nor results."""
        return self.compiled.temporaries if isinstance(self.compiled, Compiled) else 0


@dataclass(frozen=True)
class Plan:
    """All phases of a step.

    fill: mean length of prompts and responses, as a share of the longest allowed; by it the floor is counted, and the
    expected lengths are drawn unless they come from a file. limit: seconds of a step at least, whatever the programs,
    by what is done (`limit`). floor_limit: such seconds in all, for lengths drawn by `fill`. judging: seconds that a
    step waits for verdicts and scores (`judging_seconds`, `scoring_seconds`). compiled: every program, smaller ones
    too. ratios: what was measured of the phases on a device, if anything.
    """

    run: PlannedRun
    hardware: Hardware
    rows: tuple[Row, ...]
    fill: float
    step: StepCalls
    limit: Mapping[str, float]
    floor_limit: float
    judging: float
    compiled: Mapping[ProgramName, Outcome]
    ratios: Ratios

    @property
    def fits(self) -> bool:
        """Whether every phase does."""
        return all(row.fix is None for row in self.rows)

    @property
    def failed(self) -> dict[ProgramName, Failed]:
        """Smaller programs that the compiler cannot make; their calls count as those of larger ones."""
        return {name: outcome for name, outcome in self.compiled.items() if isinstance(outcome, Failed)}

    @property
    def seconds(self) -> float:
        """The least that a step takes, by this layout's arithmetic or by the hardware's limit, judging left out."""
        return max(sum(row.step_seconds for row in self.rows), self.floor_limit)

    @property
    def expected_seconds(self) -> float:
        """What a step is expected to take, judging included as if sampling hid none of it."""
        return sum(row.expected_seconds for row in self.rows) + self.judging

    @property
    def whole(self) -> WholeRun:
        """What the run is expected to take, evaluations, saves and start included; only if it fits."""
        return whole_run(self.run, self.hardware, self.fill, self.expected_seconds, self.call_seconds)

    @property
    def call_seconds(self) -> dict[str, float]:
        """Expected seconds of a call of each phase, averaged over those of a step.

        A block of an evaluation takes what one of a step does, and what its program takes longer.
        """
        found = {row.phase.name: row.expected_seconds / row.calls for row in self.rows if row.calls}
        largest = {row.phase.name: row.compiled.seconds for row in self.rows if isinstance(row.compiled, Compiled)}
        for row in self.rows:
            kind, role = row.phase.name.split()
            if kind == "evaluate" and {row.phase.name, f"decode {role}"} <= largest.keys():
                found[row.phase.name] = found[f"decode {role}"] + largest[row.phase.name] - largest[f"decode {role}"]
        return found

    @property
    def limit_seconds(self) -> float:
        """What the published figures of the hardware allow, judging left out."""
        return sum(self.limit.values())

    @property
    def tokens_per_second(self) -> float:
        """Tokens drawn in a step, by the step's least seconds."""
        return sampled_tokens(self.run.config, self.fill) / self.seconds

    @property
    def utilization(self) -> float:
        """The bound of the model FLOPs utilization: useful FLOPs by those that the devices could do in the time."""
        return self._share_of_peak(self.rows, self.seconds)

    @property
    def learning_utilization(self) -> float:
        """The model FLOPs utilization expected of learning: scoring, gradients and updates, of both policies.

        Recomputed and padded places are not counted among the useful FLOPs; what the host does is in the seconds.
        """
        learning = [row for row in self.rows if not is_sampling(row.phase.name)]
        return self._share_of_peak(learning, sum(row.expected_seconds for row in learning))

    def _share_of_peak(self, rows: Sequence[Row], seconds: float) -> float:
        useful = sum(row.phase.useful for row in rows)
        return useful / (seconds * self.hardware.chip.flops * self.hardware.devices)


def make_plan(
    config: Config,
    hardware: Hardware,
    fill: float,
    watch: Watch,
    lengths: Lengths | None = None,
    ratios: Ratios | None = None,
) -> Plan:
    """Compiles every phase: at its largest, and at the smaller shapes that a step's calls mostly have.

    ratios: measured on such a device (`read_calibration`); by default the compilers' figures stand as they are.

    Raises:
        UserError: it cannot fit, reported before anything is compiled; the mesh does not suit hardware or model; libtpu
            does not know the topology; `lengths` lacks a role.
        CompilerError: the compiler failed for another reason than memory.
    """
    run = make_planned_run(config, hardware)
    refuse_what_cannot_fit(run, hardware)
    planned, step = phases(run, fill), step_calls(run, fill, lengths)
    wanted = [*(ProgramName(phase.name) for phase in planned), *step.smaller_programs(run)]
    compiled = compile_programs(config, hardware, wanted, watch)
    ratios = {} if ratios is None else ratios
    rows = tuple(_row(run, hardware, phase, step, compiled, ratio_of(phase.name, ratios)) for phase in planned)
    limit = limit_seconds(run, hardware, step)
    learning = sum(row.expected_seconds for row in rows if not is_sampling(row.phase.name))
    judging = judging_seconds(config, hardware, learning) + scoring_seconds(step)
    floor = limit if lengths is None else limit_seconds(run, hardware, step_calls(run, fill))
    return Plan(run, hardware, rows, fill, step, limit, sum(floor.values()), judging, compiled, ratios)


def _seconds(phase: Phase, hardware: Hardware) -> dict[str, float]:
    """Seconds of one call by resource, as far as arithmetic knows them."""
    chip = hardware.chip
    return {"compute": phase.flops / (chip.flops * hardware.devices), "memory": phase.traffic / chip.bandwidth}


def _row(
    run: PlannedRun,
    hardware: Hardware,
    phase: Phase,
    step: StepCalls,
    compiled: Mapping[ProgramName, Outcome],
    ratio: float,
) -> Row:
    chip, seconds, largest = hardware.chip, _seconds(phase, hardware), compiled[ProgramName(phase.name)]
    fits = isinstance(largest, Compiled) and largest.memory <= chip.memory
    if isinstance(largest, Compiled):
        seconds["interconnect"] = sum(largest.received.values()) / chip.interconnect
    return Row(
        phase=phase,
        seconds=seconds,
        compiled=largest,
        calls=sum(step.calls.get(phase.name, {}).values()),
        expected=expected_seconds(phase.name, step, compiled, run, hardware, ratio) or {},
        fix=None if fits else suggested_fix(run, phase.name, chip.memory),
    )


def as_document(plan: Plan) -> dict[str, Any]:
    """The plan for machines. Bytes are of one device, seconds and FLOPs of one call, FLOPs of all devices together."""
    return {
        "fits": plan.fits,
        "compiled": not plan.failed and all(isinstance(row.compiled, Compiled) for row in plan.rows),
        "topology": plan.hardware.name,
        "devices": plan.hardware.devices,
        "memory_per_device": plan.hardware.chip.memory,
        "resident": resident(plan.run),
        "fill": plan.fill,
        "calibration": dict(plan.ratios),
        "floor_seconds": plan.seconds,
        "expected_seconds": plan.expected_seconds,
        "limit_seconds": plan.limit_seconds,
        "limit_seconds_by_part": dict(plan.limit),
        "judging_seconds_expected": plan.judging,
        "run_seconds_expected": asdict(plan.whole) if plan.fits else None,
        "tokens_per_second_at_most": plan.tokens_per_second,
        "mfu_at_most": plan.utilization,
        "learning_mfu_expected": plan.learning_utilization if plan.fits else None,
        "failed": {str(name): outcome.reason for name, outcome in plan.failed.items()},
        "sampling": {role: _sampling_entry(sampled) for role, sampled in plan.step.sampled.items()},
        "phases": {row.phase.name: _entry(row) for row in plan.rows},
    }


def _entry(row: Row) -> dict[str, Any]:
    entry = {
        "fits": row.fix is None,
        "memory": row.memory,
        "calls": row.phase.calls,
        "flops": row.phase.flops,
        "seconds": dict(row.seconds),
        "bound": row.bound,
        "step_seconds": row.step_seconds,
        "calls_expected": row.calls,
        "step_seconds_expected": dict(row.expected),
    }
    if row.fix is not None:
        entry["fix"] = row.fix
    if isinstance(row.compiled, Compiled):
        entry |= asdict(row.compiled)
    if isinstance(row.compiled, Refused):
        entry["refused"] = row.compiled.reason
    return entry


def _sampling_entry(sampled: Sampled) -> dict[str, Any]:
    return {
        "blocks": sampled.blocks,
        "occupancy": sampled.occupancy,
        "prefills": sum(sampled.prefills.values()),
        "prompt_tokens": sampled.prompts,
        "prompt_tokens_computed": sampled.prefilled,
        "response_tokens": sampled.drawn,
        "cache_tokens_read": sampled.read,
        "preempted": sampled.preempted,
    }


def gib(size: int | float) -> str:
    """Bytes as people read them."""
    return f"{size / GIB:.2f}"
