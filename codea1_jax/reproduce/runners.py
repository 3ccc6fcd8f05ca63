"""Where commands run: on the devices of this machine, or on hardware that `python -m launch` starts."""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from codea1_jax.reproduce.commands import Command, Kind, Needs, Words
from codea1_jax.reproduce.experiments import SUMMARY
from data_pipeline.hub import hub_name

RUNS = Path("runs")  # where the launcher puts the results of a run
LONGEST_NAME = 40
SINGLE_HOST = {"v5e": "v5e:2x4", "v5p": "v5p:2x2x1", "v6e": "v6e:2x4"}  # the largest slices with one host


@dataclass(frozen=True)
class Here:
    """The devices of this machine. Every run has a folder in `folder`."""

    folder: Path

    def place(self, name: str) -> str:
        """The run's directory."""
        return str(self.folder / name)

    def train(self, name: str, preset: str, overrides: Words, needs: Needs) -> Command:
        """`codea1 train`, which resumes."""
        directory = self.folder / name
        words = ("codea1", "train", preset, *overrides, f"run.directory={directory}")
        return Command(directory, words, SUMMARY, "training", ("--resume",), needs)

    def evaluate(self, name: str, kind: str, data: str, options: Words, needs: Needs) -> Command:
        """`codea1 eval`, which resumes."""
        directory = self.folder / name
        words = ("codea1", "eval", kind, "--data", data, *options, "--out", str(directory))
        return Command(directory, words, SUMMARY, "evaluation", needs=needs)


@dataclass(frozen=True)
class Launched:
    """Hardware that `python -m launch` starts: a platform, and its own options. TPUs are one of SINGLE_HOST.

    model, hardware: in the names of presets. bucket: where TPU VMs keep their runs; other platforms keep them here.
    Results are copied to `runs/NAME`. An evaluation runs on a single host, which on TPUs is a slice of its own.
    """

    platform: str
    options: Words
    model: str
    hardware: str
    bucket: str | None = None

    def place(self, name: str) -> str:
        """The run where its evaluations can read it: in the bucket if it was trained on TPU VMs."""
        launched = self._name(name)
        return str(RUNS / launched) if self.bucket is None else f"{self.bucket}/{launched}/run"

    def train(self, name: str, preset: str, overrides: Words, needs: Needs) -> Command:
        """`python -m launch PLATFORM up`, which resumes."""
        return self._command(name, (preset, *overrides, *self.options), "training", needs)

    def evaluate(self, name: str, kind: str, data: str, options: Words, needs: Needs) -> Command:
        """The same with an evaluation in place of training."""
        single: tuple[str, ...] = ("--nodes", "1") if self.platform == "slurm" else ()
        if self.platform == "tpu":
            single = ("--tpu", SINGLE_HOST[self.hardware], "--slices", "1")
            if hub_name(data) is None:
                single, data = (*single, "--send", data), Path(data).name  # next to which the evaluation is started
        words = (*self.options, *single, "--eval", shlex.join((kind, "--data", data, *options)))
        return self._command(name, (f"{self.model}/a1_{self.hardware}", *words), "evaluation", needs)

    def _command(self, name: str, words: Words, kind: Kind, needs: Needs) -> Command:
        launched = self._name(name)
        line = ("python", "-m", "launch", self.platform, "up", launched, *words)
        return Command(RUNS / launched, line, SUMMARY, kind, needs=needs)

    def _name(self, name: str) -> str:
        """A name that every platform takes: up to 40 lower-case letters, digits and hyphens."""
        text = re.sub(r"[^a-z0-9]+", "-", f"{name}-{self.model}".lower())
        if len(text) <= LONGEST_NAME:
            return text
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{text[: LONGEST_NAME - 9].rstrip('-')}-{digest}"


Runner = Here | Launched
"""Makes the commands that train and evaluate."""
