"""Compiles programs for hardware that is not here, in a separate process: `python -m codea1_jax.plan.compiled.worker`.

A job comes as one JSON document on standard input; a line of JSON goes out as each program begins and ends. libtpu
takes a process for itself, prints what it likes, and ends the process on some failures: `compiler` is made for that.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import Mesh
from jax.stages import Lowered

from codea1_jax.common.chips import Hardware, find_hardware, unknown_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config
from codea1_jax.models.compiling import gradient_options
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.arithmetic.planned_run import make_planned_run
from codea1_jax.plan.arithmetic.workload import Phase
from codea1_jax.plan.compiled.collectives import received_bytes
from codea1_jax.plan.compiled.compiler import ProgramName
from codea1_jax.plan.compiled.cuda import absent_gpus
from codea1_jax.plan.compiled.kept import Made, made_once
from codea1_jax.plan.compiled.kernels import expected_seconds
from codea1_jax.plan.compiled.programs import make_programs


def main() -> None:
    """Works off the job on standard input: {"config": ..., "topology": ..., "programs": [[[kind, owner], shape], ...]}.

    Answers {"begun": name} as a program begins, and its figures, or {"error": ...}, as it ends; {"refused": ...} if
    the topology is unknown.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # libtpu may write to standard output; it gets standard error
    os.dup2(2, 1)
    job = json.load(sys.stdin)

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers)

    forget_lines()
    config, hardware = Config.model_validate(job["config"]), find_hardware(job["topology"])
    names = [ProgramName(Phase(*phase), tuple(shape)) for phase, shape in job["programs"]]
    try:
        mesh = make_mesh(config.mesh, devices_of(hardware))
    except UserError as error:
        say({"refused": str(error)})
        return
    known: dict[str, dict[str, Any]] = {}
    for program in make_programs(make_planned_run(config, hardware), mesh, names):
        say({"begun": program.name})
        lowered = program.lower()
        text = lowered.as_text()  # both policies' updates, for example, are one program
        if text not in known:
            known[text] = _figures(lowered, text, mesh, hardware)
        say(known[text] | {"resident": program.resident})


def forget_lines() -> None:
    """From here on what is lowered does not say which lines it comes from: it is the same when only these change."""
    jax.config.update("jax_traceback_in_locations_limit", 0)


def devices_of(hardware: Hardware) -> Sequence[Any]:
    """Devices to compile for. Raises UserError if libtpu knows no such topology."""
    if not hardware.is_tpu:
        return absent_gpus(hardware)
    try:
        return topologies.get_topology_desc(platform="tpu", topology_name=hardware.name).devices
    except jax.errors.JaxRuntimeError as error:
        raise unknown_hardware(hardware.name) from error


def _figures(lowered: Lowered, text: str, mesh: Mesh, hardware: Hardware) -> dict[str, Any]:
    """What is said of a program; `text` is the lowered one's."""
    try:
        made = made_once(text, _compiled_for(mesh, hardware), lambda: _compiled(lowered))
    except jax.errors.JaxRuntimeError as error:
        return {"error": str(error)}
    return {
        "compile_seconds": made.seconds,
        **made.memory,
        "received": received_bytes(made.program),
        "expected": expected_seconds(made.program, hardware),
    }


def _compiled_for(mesh: Mesh, hardware: Hardware) -> str:
    """What a compiled program depends on besides what was lowered."""
    options = gradient_options(hardware.chip.kinds[0], mesh.shape["tensor"])
    return f"{hardware.name} {mesh.device_ids.tolist()} {options or ''}".rstrip()


def _compiled(lowered: Lowered) -> Made:
    started = time.perf_counter()
    compiled = lowered.compile()
    memory, text = compiled.memory_analysis(), compiled.as_text()
    assert memory is not None and text is not None  # both compilers give both
    sizes = {
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
    }
    return Made(time.perf_counter() - started, sizes, text)


if __name__ == "__main__":
    main()
