"""What a step takes on the devices at hand: a handful of its programs, measured, times the calls that it makes.

The same functions, shapes and schedule as in a run, without weights, data or judge: parameters and caches are filled
with random numbers. What was measured on a device whose figures are known corrects later plans for such devices.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Compiled

from codea1_jax.common.chips import Hardware, hardware_of
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config
from codea1_jax.models.ahead import compile_all
from codea1_jax.models.flops import Number
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.arithmetic.lengths import Lengths
from codea1_jax.plan.arithmetic.planned_run import PlannedRun, planned_run_on
from codea1_jax.plan.arithmetic.simulation import sample_batches
from codea1_jax.plan.arithmetic.workload import Phase, updates_of
from codea1_jax.plan.compiled.compiler import ProgramName, Watch
from codea1_jax.plan.compiled.kernels import expected_seconds
from codea1_jax.plan.compiled.programs import Program, Value, device_bytes, make_programs
from codea1_jax.plan.forecast import (
    Calls,
    StepCalls,
    attention_seconds,
    cache_seconds,
    holds,
    smallest_that_holds,
    step_calls,
)

Ratios = Mapping[Phase, float]
"""Measured to expected seconds of the calls of a phase."""

REPEATS = 5  # runs of a program, of which the median counts; the first one, besides, does not


@dataclass(frozen=True)
class Measured:
    """Seconds of one call of a program. expected: by what the compiler emitted, if the device's figures are known.

    planned_bytes: what a device holds meanwhile, by the compiler, and the copies of what a call takes for good.
    """

    seconds: float
    expected: float | None
    planned_bytes: int


@dataclass(frozen=True)
class Calibrated:
    """A phase on the devices at hand: expected calls of a step, and seconds of all of them, the host's part included.

    ratio: measured to expected, of its calls; None if the device's figures are not known.
    """

    calls: Number
    seconds: float
    ratio: float | None


@dataclass(frozen=True)
class Calibration:
    """A step on the devices at hand. planned_bytes: of a device, in the program that needs most by the compiler."""

    phases: Mapping[Phase, Calibrated]
    planned_bytes: int

    @property
    def seconds(self) -> float:
        """Of a step, judging left out."""
        return sum(each.seconds for each in self.phases.values())

    def as_document(self) -> dict[str, Any]:
        """For machines, and for later plans (`read_calibration`)."""
        return {
            "expected_seconds": self.seconds,
            "phases": {
                str(phase): {"calls": each.calls, "step_seconds": each.seconds, "measured_to_expected": each.ratio}
                for phase, each in self.phases.items()
            },
        }


def read_calibration(file: Path) -> Ratios:
    """Reads what `Calibration.as_document` said of a device. Raises UserError if the file holds something else."""
    try:
        phases = json.loads(file.read_text(encoding="utf-8"))["phases"]
        ratios = {Phase.named(phase): measured["measured_to_expected"] for phase, measured in phases.items()}
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file}: not the JSON document of a calibration") from error
    if not ratios or not all(isinstance(ratio, float) and ratio > 0 for ratio in ratios.values()):
        raise UserError(f"{file}: measured on devices without published figures, such as a CPU")
    return ratios


def ratio_of(phase: Phase, ratios: Ratios) -> float:
    """By what a phase's forecast is multiplied: its own ratio, or the mean one of its kind, or 1."""
    alike = [ratio for each, ratio in ratios.items() if each.kind == phase.kind]
    return ratios.get(phase) or (statistics.mean(alike) if alike else 1.0)


def calibrate(config: Config, fill: float, watch: Watch, lengths: Lengths | None = None) -> Calibration:
    """Measures the programs of a step on all devices of this process: those that a plan compiles and a step calls.

    Raises UserError if the mesh does not suit them, or `lengths` lacks a role.
    """
    devices = jax.devices()
    config = config if lengths is None else _as_long_as(config, lengths)
    run = planned_run_on(config, devices[0].platform, len(devices))
    step = step_calls(run, fill, lengths)
    measured = _measure(run, step, watch, hardware_of(devices))
    phases = {phase: phase_forecast(phase, calls, measured) for phase, calls in step.calls.items()}
    return Calibration(phases, max(program.planned_bytes for program in measured.values()))


def _as_long_as(config: Config, lengths: Lengths) -> Config:
    """The configuration whose longest prompts are those of `lengths`: a run makes room for its own questions only."""
    longest = {
        f"{role}_prompt_tokens": min(max(g.prompt for g in groups), getattr(config.rollout, f"{role}_prompt_tokens"))
        for role, groups in lengths.items()
    }
    return config.model_copy(update={"rollout": config.rollout.model_copy(update=longest)})


def _measure(run: PlannedRun, step: StepCalls, watch: Watch, hardware: Hardware | None) -> dict[ProgramName, Measured]:
    smaller = step.smaller_programs(run)
    needed = {  # at their largest; the other phases make no call that is larger than these
        phase
        for phase, calls in step.calls.items()
        for shape in calls.shapes
        if not any(name.phase == phase and holds(name.shape, shape) for name in smaller)
    }
    names = [*(ProgramName(phase) for phase in step.calls if phase in needed), *smaller]
    batches = {
        policy: sample_batches(
            groups, updates_of(run.config, policy), run.config.learners[policy].packing, run.batch_shards
        )
        for policy, groups in step.learned.items()
    }
    programs = list(make_programs(run, make_mesh(run.config.mesh), names, batches))
    watch(0, len(names), f"compiling {len(names)} programs", None)
    lowered = [program.lower() for program in programs]
    texts = [each.as_text() for each in lowered]
    different = dict(zip(texts, lowered, strict=True))  # both policies' updates, for example, are one program
    compiled = dict(zip(different, compile_all([*different.values()]), strict=True))
    measured: dict[ProgramName, Measured] = {}
    known: dict[str, Measured] = {}
    for program, text in zip(programs, texts, strict=True):
        watch(len(measured), len(names), str(program.name), None)
        if text not in known:
            known[text] = _measured(run, program, compiled[text], hardware)
        measured[program.name] = known[text]
        watch(len(measured), len(names), str(program.name), f"{known[text].seconds:.3g} s")
    return measured


def _measured(run: PlannedRun, program: Program, compiled: Compiled, hardware: Hardware | None) -> Measured:
    leaves, tree = jax.tree.flatten(filled(program.arguments))
    donated = [info.donated for info in jax.tree.leaves(compiled.args_info)]
    took = []
    for _ in range(1 + REPEATS):
        arguments = [jnp.copy(x) if gone else x for x, gone in zip(leaves, donated, strict=True)]
        jax.block_until_ready(arguments)
        started = time.perf_counter()
        jax.block_until_ready(compiled(*jax.tree.unflatten(tree, arguments)))
        took.append(time.perf_counter() - started)
    memory: Any = compiled.memory_analysis()
    copied = device_bytes([x for x, gone in zip(leaves, donated, strict=True) if gone])
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    planned_bytes = held + memory.temp_size_in_bytes + copied
    return Measured(statistics.median(took[1:]), _expected(run, program, compiled, hardware), planned_bytes)


def _expected(run: PlannedRun, program: Program, compiled: Compiled, hardware: Hardware | None) -> float | None:
    text = compiled.as_text()
    if hardware is None or text is None:
        return None
    run, phase = run.at(program.name.phase), program.name.phase
    emitted = sum(expected_seconds(text, hardware).values())
    attention = attention_seconds(run, hardware, phase, program.pairs)
    return emitted + cache_seconds(run, hardware, program.read) + attention


def filled(arguments: Any) -> Any:
    """Arrays on the devices: as they are given, or else random numbers from 0 to 0.02."""
    key = jax.random.key(0)

    def fill(x: Any) -> Any:
        if isinstance(x, Value):
            return jax.device_put(x.array, x.sharding)
        if not isinstance(x, jax.ShapeDtypeStruct):
            return x
        if not jnp.issubdtype(x.dtype, jnp.floating):
            return jax.device_put(np.zeros(x.shape, x.dtype), x.sharding)
        made = jax.jit(lambda key: jax.random.uniform(key, x.shape, x.dtype, maxval=0.02), out_shardings=x.sharding)
        return made(key)

    return jax.tree.map(fill, arguments)


def phase_forecast(phase: Phase, calls: Calls, measured: Mapping[ProgramName, Measured]) -> Calibrated:
    """What a phase takes in a step, by what its programs took."""
    device, expected = 0.0, 0.0
    seconds_of = {name: program.seconds for name, program in measured.items()}
    for shape, count in calls.shapes.items():
        name = smallest_that_holds(phase, shape, seconds_of)
        assert name is not None  # `_measure` leaves none without
        device += count * measured[name].seconds
        expected += count * (measured[name].expected or 0.0)
    return Calibrated(calls.count, device + calls.host_seconds, device / expected if expected else None)
