"""Compiles phases for a TPU topology, in a separate process: `python -m codea1_jax.plan.worker`.

A job comes as one JSON document on standard input; a line of JSON goes out as each phase begins and ends. libtpu takes
a process for itself, prints what it likes, and ends the process on some failures: `compiler` is made for that.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import jax
from jax.experimental import topologies
from jax.stages import Lowered

from codea1_jax.config import Config
from codea1_jax.models.chips import find_hardware
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.collectives import received_bytes
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.programs import make_programs


def main() -> None:
    """Works off the job on standard input: {"config": ..., "topology": ..., "phases": [...]}."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # libtpu may write to standard output; it gets standard error
    os.dup2(2, 1)
    job = json.load(sys.stdin)

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers)

    try:
        devices = topologies.get_topology_desc(platform="tpu", topology_name=job["topology"]).devices
    except jax.errors.JaxRuntimeError as error:
        say(unknown=str(error))
        return
    config = Config.model_validate(job["config"])
    mesh = make_mesh(config.mesh, devices)
    known: dict[str, dict[str, Any]] = {}
    for program in make_programs(make_planned_run(config, find_hardware(job["topology"])), mesh):
        if program.name in job["phases"]:
            say(phase=program.name)
            lowered = program.lower()
            text = lowered.as_text()  # both policies' updates, for example, are one program
            if text not in known:
                known[text] = _compile(lowered)
            say(phase=program.name, resident=program.resident, **known[text])


def _compile(lowered: Lowered) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return {"refused": str(error)}
    memory, text = compiled.memory_analysis(), compiled.as_text()
    assert memory is not None and text is not None  # the TPU compiler gives both
    return {
        "seconds": time.perf_counter() - started,
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
        "received": received_bytes(text),
    }


if __name__ == "__main__":
    main()
