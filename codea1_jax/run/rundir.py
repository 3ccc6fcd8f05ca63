"""A run's directory: opened once, refused if it belongs to another run, and the only place a run writes to."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsFloat

import yaml
from pydantic import BaseModel

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import write_atomically
from codea1_jax.config import CheckpointConfig, dump
from codea1_jax.config.presets import CONFIG_FILE, by_key
from codea1_jax.run import telemetry
from codea1_jax.run.lock import LOCK_FILE, RunLock
from codea1_jax.run.telemetry import METRICS_FILE
from codea1_jax.runtime.checkpoints import Checkpoints
from codea1_jax.runtime.gather import is_writer, on_all
from codea1_jax.runtime.storage import REMOTE, check_shared, locate

SUMMARY_FILE = "summary.json"
REFUSED_FILE = "refused.jsonl"
CHECKPOINTS_FOLDER = "checkpoints"
PROFILE_FOLDER = "profile"
RUN_FOLDER = "run"  # in a directory that `codea1 init` made
# A run may be moved, and so may its judges; it may resume on other devices, and keep other checkpoints.
MAY_CHANGE = (
    *("run.directory", "run.wandb", "checkpoint.", "sandbox.address", "sandbox.workers"),
    *("hardware", "mesh.", "hosts.", "train.profile"),
)


class RunDir:
    """Everything a run writes, by the first of its hosts; the others only know it. Use as a context manager.

    `resume_step` is the step of the checkpoint to resume from, or None if the run begins. A run that continues needs
    nothing but that checkpoint: it holds the configuration and all figures, so the directory may be a fresh one.
    """

    def __init__(
        self,
        path: Path,
        config: BaseModel,
        settings: CheckpointConfig | None = None,
        *,
        resume: bool,
        wandb: str | None = None,
    ) -> None:
        """Opens the directory, which no other process may use meanwhile; figures also go to the W&B project `wandb`.

        Raises what `check_same_run` raises.
        """
        settings = settings or CheckpointConfig()
        on_all(lambda: check_same_run(path, config, resume))
        self.path = path
        self.writes = is_writer()
        self._config, self._wandb = config, wandb
        self._lines: list[dict[str, Any]] = []
        self._metrics: telemetry.Metrics | None = None
        self._opened = ExitStack()
        try:
            self._open(checkpoints_of(path, settings), settings, resume)
        except BaseException:
            self._opened.close()
            raise

    def _open(self, checkpoints: str, settings: CheckpointConfig, resume: bool) -> None:
        # Opening the checkpoints removes unfinished ones, which must not be those of another process.
        if lock := on_all(lambda: RunLock(self.path) if self.writes else None):
            self._opened.callback(lock.release)
        self.checkpoints = Checkpoints(checkpoints, settings.keep_last, settings.keep_every)
        self._opened.callback(self.checkpoints.close)
        on_all(lambda: check_shared(checkpoints))
        self.resume_step = self.checkpoints.latest()
        if self.resume_step is not None and not resume:
            raise UserError(
                f"checkpoint.directory: {settings.directory} holds the checkpoints of a run; "
                "add --resume to continue it, or choose another"
            )
        if self.resume_step is None:
            self._begin()

    def log(self, kind: str, step: int, values: Mapping[str, SupportsFloat]) -> None:
        line = telemetry.as_line(kind, step, values)
        self._lines.append(line)
        if self._metrics is not None:
            self._metrics.write(line)

    def has_logged(self, kind: str, step: int) -> bool:
        return any(line["step"] == step for line in self.figures(kind))

    def figures(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self._lines if line["kind"] == kind]

    def write_rollouts(self, step: int, lines: str) -> None:
        if self.writes:
            telemetry.write_rollouts(self.path, step, lines)

    def write_refused(self, refused: Iterable[Mapping[str, str]]) -> None:
        lines = (json.dumps(refusal) + "\n" for refusal in refused)
        if self.writes:
            write_atomically(self.path / REFUSED_FILE, "".join(lines))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        if self.writes:
            write_atomically(self.path / SUMMARY_FILE, json.dumps(summary, indent=2) + "\n")

    def save(self, step: int, arrays: Any, document: Mapping[str, Any]) -> None:
        """Starts saving all training state. Raises CheckpointError; earlier checkpoints stay good."""
        content = {"state": document, "config": self._config.model_dump(mode="json"), "metrics": [*self._lines]}
        self.checkpoints.save(step, arrays, content)

    def restore(self, like: Any) -> tuple[Any, Mapping[str, Any]]:
        """The arrays (of the shapes and placement of `like`) and the document of `resume_step`.

        Raises CheckpointError if they cannot be read, UserError if they are those of another run.
        """
        assert self.resume_step is not None
        arrays, content = self.checkpoints.restore(self.resume_step, like)
        _refuse_another_run(content["config"], self._config, f"step {self.resume_step}")
        self._lines = content["metrics"]
        self._begin()
        return arrays, content["state"]

    def _begin(self) -> None:
        if not self.writes:
            return
        write_atomically(self.path / CONFIG_FILE, dump(self._config))
        write_atomically(self.path / telemetry.VERSIONS_FILE, json.dumps(telemetry.versions(), indent=2) + "\n")
        self._metrics = telemetry.Metrics(self.path, self.resume_step, self._lines, wandb_project=self._wandb)
        self._opened.callback(self._metrics.close)

    def __enter__(self) -> "RunDir":
        return self

    def __exit__(self, *exception: object) -> None:
        self._opened.close()


def checkpoints_of(path: Path, settings: CheckpointConfig) -> str:
    return settings.directory or str(path / CHECKPOINTS_FOLDER)


@dataclass(frozen=True)
class RecordedRun:
    """A run in a directory, here or in a bucket, with the configuration that it recorded.

    step: of the checkpoint that is meant; None: the newest.
    """

    place: str
    config: Mapping[str, Any]
    step: int | None = None

    @property
    def checkpoints(self) -> str:
        recorded = self.config.get("checkpoint", {}).get("directory")
        return recorded or f"{self.place.rstrip('/')}/{CHECKPOINTS_FOLDER}"


def find_run(name: str) -> RecordedRun | None:
    """The run that `name` means: its directory, or gs://bucket/path; "@40" behind it means a step. None: not a run.

    The directory may be that of `codea1 init`, which has the run below it.
    """
    at_step = re.fullmatch(r"(.+)@(\d+)", name)
    for place, step in [(name, None), *([(at_step[1], int(at_step[2]))] if at_step else [])]:
        for folder in (f"{place.rstrip('/')}/{RUN_FOLDER}", place):
            if (config := _recorded_config(folder)) is not None:
                return RecordedRun(folder, config, step)
    return None


def recorded_run(name: str) -> RecordedRun:
    """As `find_run`. Raises UserError if `name` is not a run."""
    run = find_run(name)
    if run is None:
        raise UserError(f"{name}: not a run; name the directory that `codea1 train` has written")
    return run


def run_folder(path: Path) -> Path:
    """The run of a directory: the directory itself, or the folder in it if `codea1 init` made it."""
    is_run = any((path / name).exists() for name in (LOCK_FILE, METRICS_FILE))
    return path / RUN_FOLDER if (path / CONFIG_FILE).exists() and not is_run else path


def _recorded_config(place: str) -> dict[str, Any] | None:
    file = locate(place) / CONFIG_FILE
    try:
        return yaml.safe_load(file.read_text()) if file.exists() else None
    except Exception as error:  # gcsfs, aiohttp and google.auth share no class of errors
        if not place.startswith(REMOTE):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{place} cannot be read: {reason}") from error


def check_same_run(path: Path, config: BaseModel, resume: bool) -> None:
    """Raises UserError if the directory holds a run and `resume` is not set, or a run of another configuration.

    Only the host that writes looks.
    """
    if not is_writer() or not path.exists() or not any(file.name != LOCK_FILE for file in path.iterdir()):
        return
    if not resume:
        raise UserError(
            f"run.directory: {path} is not empty; add --resume to continue it, or choose another run.directory"
        )
    if not (path / CONFIG_FILE).exists():
        raise UserError(f"run.directory: {path} holds no {CONFIG_FILE}, so it is not a run to resume; choose another")
    _refuse_another_run(yaml.safe_load((path / CONFIG_FILE).read_text()), config, f"the run in {path}")


def _refuse_another_run(saved: Any, config: BaseModel, name: str) -> None:
    before, now = by_key(saved), by_key(config.model_dump(mode="json"))
    changed = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    differing = sorted(key for key in changed if not key.startswith(MAY_CHANGE))
    if differing:
        key = differing[0]
        raise UserError(
            f"{key}: {name} was started with {before.get(key)!r}, not {now.get(key)!r}; "
            "resume it with its own configuration, or choose another run.directory"
        )
