"""What each phase takes and holds on the devices at hand, for `codea1 selftest`: its largest program, measured.

The same functions and shapes as in a run, without weights, data or judge: parameters and caches are filled with random
numbers.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Compiled

from codea1_jax.common.chips import Hardware, hardware_of
from codea1_jax.config import Config
from codea1_jax.models.ahead import compile_all
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.arithmetic.planned_run import PlannedRun, planned_run_on
from codea1_jax.plan.arithmetic.workload import Phase
from codea1_jax.plan.compiled.kernels import expected_seconds
from codea1_jax.plan.compiled.programs import Program, Value, device_bytes, make_programs
from codea1_jax.plan.forecast import attention_seconds, cache_seconds

REPEATS = 5  # runs of a program, of which the median counts; the first one, besides, does not


@dataclass(frozen=True)
class Measured:
    """Seconds of one call of a program. expected: by what the compiler emitted, if the device's figures are known.

    planned_bytes: what a device holds meanwhile, by the compiler, and the copies of what a call takes for good.
    """

    seconds: float
    expected: float | None
    planned_bytes: int


def calibrate(config: Config) -> Mapping[Phase, Measured]:
    """Measures every phase at its largest on all devices of this process.

    Raises UserError if the mesh does not suit them.
    """
    devices = jax.devices()
    run, hardware = planned_run_on(config, devices[0].platform, len(devices)), hardware_of(devices)
    programs = list(make_programs(run, make_mesh(run.config.mesh)))
    lowered = [program.lower() for program in programs]
    texts = [each.as_text() for each in lowered]
    # Both policies' updates, for example, are one program.
    different = {text: (program, each) for text, program, each in zip(texts, programs, lowered, strict=True)}
    compiled = zip(different.items(), compile_all([each for _, each in different.values()]), strict=True)
    known = {text: _measured(run, program, made, hardware) for (text, (program, _)), made in compiled}
    return {program.name.phase: known[text] for program, text in zip(programs, texts, strict=True)}


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
