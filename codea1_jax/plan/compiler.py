"""Compiling in a separate process, which may die of its input without taking others down."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from codea1_jax.common.chips import GIB, Hardware
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config
from codea1_jax.plan.workload import Phase

# libtpu looks for a TPU's metadata server unless all of this is set; the type need not be that of the topology.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "JAX_TRACEBACK_FILTERING": "off",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "TPU_MIN_LOG_LEVEL": "3",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}

WORKER = (sys.executable, "-m", "codea1_jax.plan.worker")

Report = Callable[[str], None]
"""Gets a line whenever something begins or ends."""

Shape = tuple[int, ...]
"""Of a smaller program of a phase: the tokens of a prefill; the rows of a shard, and the pages of prompts and of
responses, that a block of decoding looks at; or the rows and places of a micro-batch."""


class ProgramName(NamedTuple):
    """A phase of a step, and the shape of the program: none for the largest."""

    phase: Phase
    shape: Shape = ()

    def __str__(self) -> str:
        return f"{self.phase} {'+'.join(map(str, self.shape))}".strip()


class CompilerError(OSError):
    """The compiler failed for another reason than memory; the message is its last line."""


@dataclass(frozen=True)
class Compiled:
    """What the compiler reports for one program; sizes in bytes on one device.

    resident: what lies there meanwhile and is not an argument. received: from other devices in one call. seconds:
    expected of one call.
    """

    resident: int
    arguments: int
    temporaries: int
    outputs: int
    aliased: int
    received: float
    seconds: float

    @property
    def memory(self) -> int:
        return self.resident + self.arguments + self.temporaries + self.outputs - self.aliased

    def __str__(self) -> str:
        return f"{self.memory / GIB:.2f} GiB"


Outcome = Compiled | str
"""A program, or in the compiler's words why it finds no room for it: "needs X of Y"."""


def check_compiler(hardware: Hardware) -> None:
    """Raises UserError, with the fix, if the compiler for this hardware is not installed."""
    if hardware.is_tpu and importlib.util.find_spec("libtpu") is None:
        raise UserError("compiling for TPUs needs libtpu: pip install 'codea1-jax[plan]'")
    cuda = ("jax_cuda12_plugin", "jax_cuda13_plugin")
    if not hardware.is_tpu and not any(map(importlib.util.find_spec, cuda)):
        raise UserError("compiling for GPUs needs XLA's CUDA compiler: pip install 'codea1-jax[plan-cuda]'")


def compile_programs(
    config: Config, hardware: Hardware, names: Sequence[ProgramName], report: Report
) -> dict[ProgramName, Outcome]:
    """Compiles these programs of a step, one after another.

    Raises UserError for a topology that libtpu does not know, CompilerError if it fails for another reason than memory.
    """
    results: dict[ProgramName, Outcome] = {}

    def finish(name: ProgramName, outcome: Outcome) -> None:
        results[name] = outcome
        report(f"{len(results)}/{len(names)} {name}: {outcome}")

    while waiting := [name for name in names if name not in results]:
        job = {"config": config.model_dump(mode="json"), "topology": hardware.name, "programs": waiting}
        at_work = None
        with _worker(job) as (answers, log):
            for answer in answers:
                if "refused" in answer:
                    raise UserError(answer["refused"])
                if "begun" in answer:
                    phase, shape = answer["begun"]
                    at_work = ProgramName(Phase(*phase), tuple(shape))
                    report(f"{len(results) + 1}/{len(names)} compiling {at_work}")
                elif at_work is not None:
                    finish(at_work, _outcome(at_work, answer))
                    at_work = None
            if at_work is not None:
                finish(at_work, _post_mortem(log()))
            elif len(results) < len(names):
                raise CompilerError(_last_line(log()))
    return results


@contextmanager
def _worker(job: Mapping[str, Any]) -> Iterator[tuple[Iterator[dict[str, Any]], Callable[[], str]]]:
    environment = os.environ | ENVIRONMENT
    with tempfile.TemporaryFile("w+") as errors:
        pipe = subprocess.PIPE
        process = subprocess.Popen(WORKER, stdin=pipe, stdout=pipe, stderr=errors, env=environment, text=True)
        assert process.stdin is not None and process.stdout is not None

        def log() -> str:
            errors.seek(0)
            return errors.read()

        try:
            process.stdin.write(json.dumps(job))
            process.stdin.close()
            yield map(json.loads, process.stdout), log
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def _outcome(name: ProgramName, figures: dict[str, Any]) -> Outcome:
    if "error" not in figures:
        return Compiled(**figures)
    if "RESOURCE_EXHAUSTED" in figures["error"]:
        return _shortened(figures["error"])
    raise CompilerError(f"{name}: the compiler failed: {figures['error'].splitlines()[0][:200]}")


def _post_mortem(log: str) -> str:
    if "RESOURCE_EXHAUSTED" in log or "exceeds available" in log or "Exceeded hbm" in log:
        return _shortened(log)
    raise CompilerError(_last_line(log))


def _last_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return f"the compiler failed: {lines[-1] if lines else 'it printed nothing'}"


def _shortened(message: str) -> str:
    for said in (r"Used ([\d.]+\w) of ([\d.]+\w) hbm", r"\(([\d.]+\w)\) exceeds available HBM \(([\d.]+\w)\)"):
        if sizes := re.search(said, message):
            return f"needs {sizes[1]} of {sizes[2]}"
    return " ".join(message.split())[:200]
