"""The plan of a run on some hardware: what fits, what bounds it, and how fast a step can be at the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from codea1_jax.config import Config
from codea1_jax.models.chips import GIB, Hardware
from codea1_jax.plan.compiler import Compiled, Refused, Watch, compile_phases
from codea1_jax.plan.memory import least_memory, refuse_what_cannot_fit, resident, suggested_fix
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.workload import Phase, PlannedRun, phases, sampled_tokens


@dataclass(frozen=True)
class Row:
    """One phase of the plan.

    seconds: of one call by resource, none of which can be undercut. memory: bytes on a device while it runs, or the
    least of them where nothing was compiled, or None.
    """

    phase: Phase
    seconds: Mapping[str, float]
    memory: float | None
    compiled: Compiled | Refused | None
    fix: str | None

    @property
    def bound(self) -> str:
        """The resource that the phase waits for."""
        return max(self.seconds, key=lambda resource: self.seconds[resource])

    @property
    def step_seconds(self) -> float:
        """Seconds of all the phase's calls in a step."""
        return self.phase.calls * self.seconds[self.bound]


@dataclass(frozen=True)
class Plan:
    """All phases of a step. fill: mean length of prompts and responses, as a share of the longest allowed."""

    run: PlannedRun
    hardware: Hardware
    rows: tuple[Row, ...]
    fill: float

    @property
    def fits(self) -> bool:
        """Whether every phase does."""
        return all(row.fix is None for row in self.rows)

    @property
    def seconds(self) -> float:
        """The least that a step takes, judging left out."""
        return sum(row.step_seconds for row in self.rows)

    @property
    def tokens_per_second(self) -> float:
        """Tokens drawn in a step, by the step's seconds."""
        return sampled_tokens(self.run.config, self.fill) / self.seconds

    @property
    def utilization(self) -> float:
        """The bound of the model FLOPs utilization: useful FLOPs by those that the devices could do in the time."""
        useful = sum(row.phase.useful for row in self.rows)
        return useful / (self.seconds * self.hardware.chip.flops * self.hardware.devices)


def make_plan(config: Config, hardware: Hardware, fill: float, watch: Watch) -> Plan:
    """Compiles every phase for a TPU; for other hardware, by arithmetic alone.

    Raises:
        UserError: it cannot fit, reported before anything is compiled; the mesh does not suit hardware or model; libtpu
            does not know the topology.
        CompilerError: the compiler failed for another reason than memory.
    """
    run = make_planned_run(config, hardware)
    refuse_what_cannot_fit(run, hardware)
    planned = phases(run, fill)
    compiled = compile_phases(config, hardware, [phase.name for phase in planned], watch) if hardware.is_tpu else {}
    rows = tuple(_row(run, hardware, phase, compiled.get(phase.name)) for phase in planned)
    return Plan(run, hardware, rows, fill)


def least_seconds(run: PlannedRun, hardware: Hardware, fill: float) -> float:
    """The least that a step takes by arithmetic alone, which ignores the interconnect."""
    return sum(phase.calls * max(_seconds(phase, hardware).values()) for phase in phases(run, fill))


def _seconds(phase: Phase, hardware: Hardware) -> dict[str, float]:
    """Seconds of one call by resource, as far as arithmetic knows them."""
    chip = hardware.chip
    return {"compute": phase.flops / (chip.flops * hardware.devices), "memory": phase.traffic / chip.bandwidth}


def _row(run: PlannedRun, hardware: Hardware, phase: Phase, compiled: Compiled | Refused | None) -> Row:
    chip, seconds = hardware.chip, _seconds(phase, hardware)
    if isinstance(compiled, Compiled):
        seconds["interconnect"] = sum(compiled.received.values()) / chip.interconnect
        memory = float(compiled.memory)
    else:
        memory = None if isinstance(compiled, Refused) else least_memory(run).get(phase.name, resident(run))
    fits = memory is not None and memory <= chip.memory
    return Row(phase, seconds, memory, compiled, None if fits else suggested_fix(run, phase.name, chip.memory))


def as_document(plan: Plan) -> dict[str, Any]:
    """The plan for machines. Bytes are of one device, seconds and FLOPs of one call, FLOPs of all devices together."""
    return {
        "fits": plan.fits,
        "topology": plan.hardware.name,
        "devices": plan.hardware.devices,
        "compiled": plan.hardware.is_tpu,
        "memory_per_device": plan.hardware.chip.memory,
        "resident": resident(plan.run),
        "fill": plan.fill,
        "step_seconds_at_least": plan.seconds,
        "tokens_per_second_at_most": plan.tokens_per_second,
        "mfu_at_most": plan.utilization,
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
    }
    if row.fix is not None:
        entry["fix"] = row.fix
    if isinstance(row.compiled, Compiled):
        entry |= asdict(row.compiled) | {"seconds": dict(row.seconds), "compile_seconds": row.compiled.seconds}
    if isinstance(row.compiled, Refused):
        entry["refused"] = row.compiled.reason
    return entry


def gib(size: int | float) -> str:
    """Bytes as people read them."""
    return f"{size / GIB:.2f}"
