"""What is to be trained, and where what it leaves goes."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from launch.shell import Command, Refused

CODEA1 = (sys.executable, "-m", "codea1_jax")
PLAN_SECONDS = 3600  # a large preset is many programs to compile


def codea1(*arguments: str) -> tuple[str, ...]:
    """The words of a `codea1` command, of this environment."""
    return (*CODEA1, *arguments)


@dataclass(frozen=True)
class Job:
    """A run: its name, its preset with overrides, and where it is kept (gs://bucket/folder, or None: here)."""

    name: str
    preset: str
    overrides: tuple[str, ...]
    bucket: str | None = None
    slices: int = 1

    @property
    def directory(self) -> str:
        """The run's directory, relative to where training is started."""
        return f"runs/{self.name}"

    @property
    def folder(self) -> str:
        """Where in the bucket everything of this run lies."""
        return f"{self.bucket}/{self.name}"

    def train_arguments(self) -> tuple[str, ...]:
        """Arguments of `codea1`. Training always goes on from the last checkpoint; where there is none, it begins."""
        own = [f"run.directory={self.directory}"]
        if self.bucket is not None:
            own.append(f"checkpoint.directory={self.folder}/checkpoints")
        if self.slices > 1:
            own.append(f"mesh.replica={self.slices}")
        return ("train", self.preset, *self.overrides, *own, "--resume")

    def plan(self, topology: str) -> Command:
        """Says whether it fits one slice, or one set of GPUs. More slices repeat what a slice holds."""
        return Command(codea1("plan", self.preset, *self.overrides, "--topology", topology), seconds=PLAN_SECONDS)

    def check_overrides(self) -> None:
        """Raises Refused if an override says what the launch decides."""
        taken = {
            "run.directory": "it is runs/NAME",
            "hosts.": "workers find each other",
            **({"checkpoint.directory": "it lies under --bucket"} if self.bucket is not None else {}),
            **({"mesh.replica": "it is the number of slices"} if self.slices > 1 else {}),
        }
        for override in self.overrides:
            key = next((key for key in taken if override.startswith(key)), None)
            if key is not None:
                raise Refused(f"{override}: leave it out; {taken[key]}")
