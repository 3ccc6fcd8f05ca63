"""What a run leaves behind: metrics, rollouts and versions.

A run directory is written by one process (the first host). The loop logs everything of a step *before*
it saves that step's checkpoint; resuming from the checkpoint then rewinds the files to that step, and the
resumed run's files equal those of a run that was never interrupted.
"""

import importlib.metadata
import json
import logging
import math
import os
import platform
import secrets
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, SupportsFloat

import jax

from codea1_jax.common.files import naming, write_atomically

METRICS_FILE = "metrics.jsonl"
ROLLOUTS_FOLDER = "rollouts"
VERSIONS_FILE = "versions.json"
WANDB_FILE = "wandb_id"

_PACKAGES = ("codea1-jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "transformers", "grain")

logger = logging.getLogger(__name__)


# --- rollouts -------------------------------------------------------------------------------------


def rollouts_path(run_dir: Path, step: int) -> Path:
    return run_dir / ROLLOUTS_FOLDER / f"step_{step:06d}.jsonl"


def rollout_steps(run_dir: Path) -> list[int]:
    names = (path.stem.removeprefix("step_") for path in (run_dir / ROLLOUTS_FOLDER).glob("step_*.jsonl"))
    return sorted(int(name) for name in names if name.isdecimal())


def rollout_lines(records: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(record, allow_nan=False) + "\n" for record in records)


def write_rollouts(run_dir: Path, step: int, lines: str) -> None:
    """Records a step's rollouts, as `rollout_lines` made them."""
    write_atomically(rollouts_path(run_dir, step), lines)


# --- metrics --------------------------------------------------------------------------------------


def as_line(kind: str, step: int, values: Mapping[str, SupportsFloat]) -> dict[str, Any]:
    """Figures as they are recorded. One that is not finite becomes null, with a warning."""
    figures = {name: float(value) for name, value in values.items()}
    wrong = sorted(name for name, value in figures.items() if not math.isfinite(value))
    if wrong:
        logger.warning("step %d: not finite: %s", step, ", ".join(wrong))
    recorded = {name: None if name in wrong else value for name, value in figures.items()}
    return {"kind": kind, "step": step, "time": time.time(), **recorded}


class Metrics:
    """Writes a run's figures to `metrics.jsonl` and, if a project is named, to wandb.

    `resume_step=None` starts the run's records afresh; a number continues after that step, whose figures so far are
    `lines`, and forgets what was logged later. `wandb_project` needs the `wandb` extra (else ImportError).
    """

    def __init__(
        self,
        run_dir: Path,
        resume_step: int | None = None,
        lines: Sequence[Mapping[str, Any]] = (),
        *,
        wandb_project: str | None = None,
    ) -> None:
        for step in rollout_steps(run_dir):
            if resume_step is None or step > resume_step:
                rollouts_path(run_dir, step).unlink()
        write_atomically(run_dir / METRICS_FILE, "".join(json.dumps(line) + "\n" for line in lines))
        self._file = (run_dir / METRICS_FILE).open("a", encoding="utf-8", newline="\n")
        resumed = resume_step is not None
        self._wandb = None if wandb_project is None else _start_wandb(run_dir, wandb_project, resumed=resumed)

    def write(self, line: Mapping[str, Any]) -> None:
        with naming(Path(self._file.name)):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        if self._wandb is not None:
            figures = {name: value for name, value in line.items() if isinstance(value, float) and name != "time"}
            self._wandb.log(figures, step=line["step"])

    def close(self) -> None:
        with suppress(OSError):  # every line is on disk, unless writing it has failed and was reported
            self._file.close()
        if self._wandb is not None:
            self._wandb.finish()


def _start_wandb(run_dir: Path, project: str, *, resumed: bool) -> Any:
    """The run's own record of this project: a new one, even if other runs have its name, unless the run continues."""
    import wandb  # noqa: PLC0415  # an optional extra  # pyright: ignore[reportMissingImports]

    own = run_dir / WANDB_FILE
    if not (resumed and own.exists()):
        write_atomically(own, secrets.token_hex(8))
    return wandb.init(project=project, id=own.read_text(), name=run_dir.name, dir=str(run_dir), resume="allow")


# --- versions -------------------------------------------------------------------------------------


def versions() -> dict[str, Any]:
    return {
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "processor_cores": os.cpu_count(),
        "processes": jax.process_count(),
        "devices": dict(Counter(device.device_kind for device in jax.devices())),
    }
