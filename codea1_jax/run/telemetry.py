"""What a run leaves behind and shows while it works: metrics, rollouts, versions and progress.

A run directory is written by one process (the first host). The loop logs everything of a step *before*
it saves that step's checkpoint; resuming from the checkpoint then rewinds the files to that step, and the
resumed run's files equal those of a run that was never interrupted.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import math
import os
import platform
import secrets
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, SupportsFloat, TextIO

import jax
import rich.progress
from rich.console import Console
from tensorboardX import SummaryWriter

METRICS_FILE = "metrics.jsonl"
ROLLOUTS_FOLDER = "rollouts"
VERSIONS_FILE = "versions.json"
WANDB_FILE = "wandb_id"
TENSORBOARD_FOLDER = "tb"

_PACKAGES = (
    "codea1-jax",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "numpy",
    "transformers",
    "grain",
)

logger = logging.getLogger(__name__)


# --- files ----------------------------------------------------------------------------------------


def write_atomically(path: Path, text: str) -> None:
    """Writes a whole UTF-8 file or none: a reader, or a crash, never sees half of it.

    Raises OSError (a full disk, say) and leaves the previous file as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; an unfinished last line (a crash while writing) is left out.

    Raises FileNotFoundError, and ValueError naming the line if a finished line is not a JSON object.
    """
    lines = path.read_text(encoding="utf-8").split("\n")
    return [_parse_line(path, number, line) for number, line in enumerate(lines[:-1], start=1)]


def _parse_line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {number}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}, line {number}: not a JSON object")
    return value


def rollouts_path(run_dir: Path, step: int) -> Path:
    return run_dir / ROLLOUTS_FOLDER / f"step_{step:06d}.jsonl"


def rollout_steps(run_dir: Path) -> list[int]:
    """The steps whose rollouts were recorded, in order."""
    return sorted(int(path.stem.removeprefix("step_")) for path in (run_dir / ROLLOUTS_FOLDER).glob("step_*.jsonl"))


def write_rollouts(run_dir: Path, step: int, records: Iterable[Mapping[str, Any]]) -> Path:
    """Records a step's rollouts, one JSON object per question, and returns the file."""
    path = rollouts_path(run_dir, step)
    write_atomically(path, "".join(json.dumps(record, allow_nan=False) + "\n" for record in records))
    return path


def rewind(run_dir: Path, step: int) -> None:
    """Forgets what was logged after `step`, so that the run can resume from that step's checkpoint."""
    path = run_dir / METRICS_FILE
    if path.exists():
        kept = [line for line in read_lines(path) if line["step"] <= step]
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in kept))
    for later in rollout_steps(run_dir):
        if later > step:
            rollouts_path(run_dir, later).unlink()


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
    """Writes a run's figures to `metrics.jsonl`, to TensorBoard events and, if a project is named, to wandb.

    `resume_step=None` starts the run's records afresh; a number continues after that step and forgets what
    was logged later. Use as a context manager. `wandb_project` needs the `wandb` extra (else ImportError).
    """

    def __init__(self, run_dir: Path, resume_step: int | None = None, *, wandb_project: str | None = None) -> None:
        run_dir.mkdir(parents=True, exist_ok=True)
        board_dir = run_dir / TENSORBOARD_FOLDER
        if resume_step is None:
            shutil.rmtree(board_dir, ignore_errors=True)
        rewind(run_dir, -1 if resume_step is None else resume_step)
        self._file = (run_dir / METRICS_FILE).open("a", encoding="utf-8", newline="\n")
        self._board = SummaryWriter(str(board_dir), purge_step=None if resume_step is None else resume_step + 1)
        goes_on = resume_step is not None
        self._wandb = None if wandb_project is None else _start_wandb(run_dir, wandb_project, goes_on=goes_on)

    def log(self, kind: str, step: int, values: Mapping[str, SupportsFloat]) -> None:
        """Appends one line, on disk when this returns."""
        self.write(as_line(kind, step, values))

    def write(self, line: Mapping[str, Any]) -> None:
        """Appends a line that `as_line` made, on disk when this returns."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        step = line["step"]
        figures = {name: value for name, value in line.items() if isinstance(value, float) and name != "time"}
        for name, value in figures.items():
            self._board.add_scalar(name, value, step)
        self._board.flush()
        if self._wandb is not None:
            self._wandb.log(figures, step=step)

    def close(self) -> None:
        self._file.close()
        self._board.close()
        if self._wandb is not None:
            self._wandb.finish()

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _start_wandb(run_dir: Path, project: str, *, goes_on: bool) -> Any:
    """The run's own record of this project: a new one, even if other runs have its name, unless the run continues."""
    import wandb  # noqa: PLC0415  # an optional extra  # pyright: ignore[reportMissingImports]

    own = run_dir / WANDB_FILE
    if not (goes_on and own.exists()):
        write_atomically(own, secrets.token_hex(8))
    return wandb.init(project=project, id=own.read_text(), name=run_dir.name, dir=str(run_dir), resume="allow")


# --- versions -------------------------------------------------------------------------------------


def versions() -> dict[str, Any]:
    """What the run was made with: Python, packages, platform and how many devices of each kind."""
    devices = Counter(device.device_kind for device in jax.devices())
    return {
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "processor_cores": os.cpu_count(),
        "processes": jax.process_count(),
        "devices": dict(devices),
    }


def write_versions(run_dir: Path) -> Path:
    path = run_dir / VERSIONS_FILE
    write_atomically(path, json.dumps(versions(), indent=2) + "\n")
    return path


# --- what one sees --------------------------------------------------------------------------------


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Looks standard error up at every record, so that lines go above a progress bar that has captured it."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Sends this package's log records to standard error; calling it again changes the level."""
    package = logging.getLogger("codea1_jax")
    package.setLevel(level)
    package.propagate = False
    for old in [handler for handler in package.handlers if isinstance(handler, _StderrHandler)]:
        package.removeHandler(old)
    handler = _StderrHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    package.addHandler(handler)


_PHASES = {
    "code": "seconds/generate_code",
    "tests": "seconds/generate_tests",
    "judge": "seconds/judge_wait",
    "learn code": "seconds/update_code",
    "learn tests": "seconds/update_test",
}
_SHOWN = (
    ("code", "code/reward", "{:.3f}"),
    ("test", "test/reward", "{:.3f}"),
    ("passed", "pass_rate", "{:.0%}"),
)


def describe(values: Mapping[str, SupportsFloat]) -> list[str]:
    """One step's figures in words; those that are missing are left out."""
    figures = [f"{label} {form.format(float(values[name]))}" for label, name, form in _SHOWN if name in values]
    if "seconds/step" in values:
        figures.append(f"{float(values['seconds/step']):.1f} s")
    phases = [f"{label} {float(values[name]):.1f}" for label, name in _PHASES.items() if name in values]
    return [*figures, ", ".join(phases)] if phases else figures


class Progress:
    """Shows how far training is: a bar on a terminal, otherwise one log line per step. A context manager.

    `done` is the number of steps an earlier, resumed run has done.
    """

    def __init__(
        self,
        total: int,
        *,
        done: int = 0,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        console = Console(stderr=True) if console is None else console
        self._total, self._first, self._clock = total, done, clock
        self._started = clock()
        self._bar = _make_bar(console) if console.is_terminal else None
        self._task = self._bar.add_task("", total=total, completed=done, eta="--:--") if self._bar else None

    def update(self, step: int, values: Mapping[str, SupportsFloat]) -> None:
        """Shows that `step` steps are done, with the metrics of the last."""
        eta = self._eta(step)
        if self._bar is None or self._task is None:
            logger.info(" | ".join([f"step {step}/{self._total}", *describe(values), f"{eta} left"]))
        else:
            self._bar.update(self._task, completed=step, description=" | ".join(describe(values)), eta=eta)

    def _eta(self, step: int) -> str:
        if step <= self._first:
            return "--:--"
        left = (self._clock() - self._started) / (step - self._first) * (self._total - step)
        minutes, seconds = divmod(round(left), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _make_bar(console: Console) -> rich.progress.Progress:
    return rich.progress.Progress(
        rich.progress.TextColumn("step"),
        rich.progress.MofNCompleteColumn(),
        rich.progress.BarColumn(bar_width=20),
        rich.progress.TextColumn("{task.fields[eta]} left", style="cyan"),
        rich.progress.TextColumn("{task.description}", markup=False),
        console=console,
    )
