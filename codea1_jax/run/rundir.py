"""A run's directory: opened once, refused if it belongs to another run, and the only place a run writes to."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, SupportsFloat

import yaml
from pydantic import BaseModel

from codea1_jax.run import telemetry
from codea1_jax.run.checkpoint import Checkpoints
from codea1_jax.run.config import ConfigError, dump

CONFIG_FILE = "config.yaml"
SUMMARY_FILE = "summary.json"
REFUSED_FILE = "refused.jsonl"
CHECKPOINTS_FOLDER = "checkpoints"
PLACES = {"run.directory", "sandbox.addresses"}  # a run may be moved, and so may its judges


class RunDir:
    """Everything a run writes. Use as a context manager.

    `resume_step` is the step of the checkpoint to go on from, or None if the run begins.
    """

    def __init__(
        self, path: Path, config: BaseModel, *, resume: bool, keep_last: int, wandb: str | None = None
    ) -> None:
        """Opens the directory; figures also go to the Weights & Biases project `wandb`.

        Raises what `check_same_run` raises, and ConfigError if wandb is asked for but not installed.
        """
        if wandb is not None and importlib.util.find_spec("wandb") is None:
            raise ConfigError("run.wandb: wandb is not installed; pip install 'codea1-jax[wandb]', or leave it unset")
        self.path = path
        check_same_run(path, config, resume)
        path.mkdir(parents=True, exist_ok=True)
        self._checkpoints = Checkpoints(path / CHECKPOINTS_FOLDER, keep_last)
        self.resume_step = self._checkpoints.latest()
        telemetry.write_atomically(path / CONFIG_FILE, dump(config))
        telemetry.write_versions(path)
        self._metrics = telemetry.Metrics(path, self.resume_step, wandb_project=wandb)

    def log(self, kind: str, step: int, values: Mapping[str, SupportsFloat]) -> None:
        """Appends figures to the run's metrics."""
        self._metrics.log(kind, step, values)

    def has_logged(self, kind: str, step: int) -> bool:
        """Whether figures of this kind and step are there."""
        lines = telemetry.read_lines(self.path / telemetry.METRICS_FILE)
        return any(line["kind"] == kind and line["step"] == step for line in lines)

    def figures(self, kind: str) -> list[dict[str, Any]]:
        """All figures of one kind, in order."""
        return [line for line in telemetry.read_lines(self.path / telemetry.METRICS_FILE) if line["kind"] == kind]

    def write_rollouts(self, step: int, records: Iterable[Mapping[str, Any]]) -> None:
        """Records a step's rollouts."""
        telemetry.write_rollouts(self.path, step, records)

    def write_refused(self, refused: Iterable[Mapping[str, str]]) -> None:
        """Records the questions that were not used, each with its reason."""
        lines = (json.dumps(refusal) + "\n" for refusal in refused)
        telemetry.write_atomically(self.path / REFUSED_FILE, "".join(lines))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Writes the figures that the run ends with."""
        telemetry.write_atomically(self.path / SUMMARY_FILE, json.dumps(summary, indent=2) + "\n")

    def has_saved(self, step: int) -> bool:
        """Whether there is a checkpoint of this step."""
        return step in self._checkpoints.steps()

    def save(self, step: int, arrays: Any, document: Mapping[str, Any]) -> None:
        """Saves all training state. Raises CheckpointError; earlier checkpoints stay good."""
        self._checkpoints.save(step, arrays, document)

    def restore(self, like: Any) -> tuple[Any, Mapping[str, Any]]:
        """The arrays (of the shapes and placement of `like`) and the document of `resume_step`."""
        assert self.resume_step is not None
        return self._checkpoints.restore(self.resume_step, like)

    def __enter__(self) -> RunDir:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._checkpoints.close()
        finally:
            self._metrics.close()


def check_same_run(path: Path, config: BaseModel, resume: bool) -> None:
    """Raises ConfigError if the directory holds a run and `resume` is not set, or a run of another configuration."""
    if not path.exists() or not any(path.iterdir()):
        return
    if not resume:
        raise ConfigError(
            f"run.directory: {path} is not empty; add --resume to go on with it, or choose another run.directory"
        )
    if not (path / CONFIG_FILE).exists():
        raise ConfigError(f"run.directory: {path} holds no {CONFIG_FILE}, so it is no run to resume; choose another")
    before = _flat(yaml.safe_load((path / CONFIG_FILE).read_text()))
    now = _flat(yaml.safe_load(dump(config)))
    changed = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    differing = sorted(changed - PLACES)
    if differing:
        key = differing[0]
        raise ConfigError(
            f"{key}: the run in {path} was started with {before.get(key)!r}, not {now.get(key)!r}; "
            "resume it with its own configuration, or choose another run.directory"
        )


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {prefix: tree}
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}.{key}" if prefix else key)
    return flat
