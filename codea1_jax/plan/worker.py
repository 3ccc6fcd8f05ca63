"""Compiles programs for hardware that is not here, in a separate process: `python -m codea1_jax.plan.worker`.

A job comes as one JSON document on standard input; a line of JSON goes out as each program begins and ends. libtpu
takes a process for itself, prints what it likes, and ends the process on some failures: `compiler` is made for that.

What has been compiled is kept in `.cache/plan`: JAX's own cache cannot read back a program for a device that is not
there.
"""

import gzip
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import Mesh
from jax.stages import Lowered

from codea1_jax.common.chips import Hardware, find_hardware, unknown_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.common.files import write_atomically
from codea1_jax.config import Config
from codea1_jax.learn.phases import gradient_options
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.compiler import ProgramName
from codea1_jax.plan.cuda import absent_gpus
from codea1_jax.plan.hlo import received_bytes
from codea1_jax.plan.kernels import expected_seconds
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.programs import make_programs
from codea1_jax.plan.workload import Phase

FOLDER = Path(".cache/plan")
COMPILERS = ("jaxlib", "libtpu", "jax-cuda12-pjrt", "jax-cuda13-pjrt")
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")


def main() -> None:
    """Works off the job on standard input: {"config": ..., "topology": ..., "programs": [[[kind, owner], shape], ...]}.

    Answers {"begun": name} as a program begins, and its figures, or {"error": ...}, as it ends; {"refused": ...} if
    the topology is unknown.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # libtpu may write to standard output; it gets standard error
    os.dup2(2, 1)
    job = json.load(sys.stdin)

    def answer(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=answers)

    forget_lines()
    config, hardware = Config.model_validate(job["config"]), find_hardware(job["topology"])
    names = [ProgramName(Phase(*phase), tuple(shape)) for phase, shape in job["programs"]]
    try:
        mesh = make_mesh(config.mesh, devices_of(hardware))
    except UserError as error:
        answer({"refused": str(error)})
        return
    known: dict[str, dict[str, Any]] = {}
    for program in make_programs(make_planned_run(config, hardware), mesh, names):
        answer({"begun": program.name})
        lowered = program.lower()
        text = lowered.as_text()  # both policies' updates, for example, are one program
        if text not in known:
            known[text] = _figures(lowered, text, mesh, hardware)
        answer(known[text] | {"resident": program.resident})


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
    options = gradient_options(hardware.chip.kinds[0], mesh.shape["tensor"])
    devices = f"{hardware.name} {mesh.device_ids.tolist()} {options or ''}".rstrip()
    try:
        compiled = compile_cached(text, devices, lambda: _compile(lowered))
    except jax.errors.JaxRuntimeError as error:
        return {"error": str(error)}
    program = compiled["program"]
    figures = {"received": received_bytes(program), "seconds": expected_seconds(program, hardware)}
    return compiled["memory"] | figures


def _compile(lowered: Lowered) -> dict[str, Any]:
    compiled = lowered.compile()
    memory, text = compiled.memory_analysis(), compiled.as_text()
    assert memory is not None and text is not None  # both compilers give both
    sizes = {
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
    }
    return {"memory": sizes, "program": text}


def compile_cached(source: str, devices: str, compile_: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `compile_` makes of a lowered program, or made of the same one for the same devices before.

    Other versions of the compilers, or other flags, make another one.
    """
    flags = (os.environ.get(name, "") for name in FLAGS)
    name = hashlib.sha256("\n".join((source, devices, compilers(), *flags)).encode()).hexdigest()
    file = FOLDER / f"{name}.json.gz"
    with suppress(OSError, EOFError, zlib.error, ValueError):  # not there, or damaged
        return json.loads(gzip.decompress(file.read_bytes()))
    compiled = compile_()
    with suppress(OSError):  # where nothing can be written it is compiled again
        write_atomically(file, gzip.compress(json.dumps(compiled).encode()))
    return compiled


def compilers() -> str:
    installed = []
    for package in COMPILERS:
        with suppress(PackageNotFoundError):
            installed.append(f"{package} {version(package)}")
    return ", ".join(installed)


if __name__ == "__main__":
    main()
