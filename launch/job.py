"""What is to be trained, and where what it leaves goes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from codea1_jax.build.sources import Source
from data_pipeline.rows import SUFFIXES
from data_pipeline.storage import BUCKET
from launch.shell import Command, Refused

CODEA1 = (sys.executable, "-m", "codea1_jax")
PLAN_SECONDS = 3600  # a large preset is many programs to compile


def codea1(*arguments: str) -> tuple[str, ...]:
    """The words of a `codea1` command, of this environment."""
    return (*CODEA1, *arguments)


@dataclass(frozen=True)
class Job:
    """A run: its name, its preset with overrides, and where it is kept (gs://bucket/folder, or None: here).

    sources: what it reads its questions from.
    """

    name: str
    preset: str
    overrides: tuple[str, ...]
    bucket: str | None = None
    slices: int = 1
    sources: tuple[Source, ...] = ()

    @property
    def directory(self) -> str:
        """The run's directory, relative to where training is started."""
        return f"runs/{self.name}"

    @property
    def folder(self) -> str:
        """Where in the bucket everything of this run lies."""
        return f"{self.bucket}/{self.name}"

    def train_arguments(self, *more: str) -> tuple[str, ...]:
        """Arguments of `codea1`. Training always resumes from the last checkpoint; where there is none, it begins."""
        own = [f"run.directory={self.directory}"]
        if self.bucket is not None:
            own.append(f"checkpoint.directory={self.folder}/checkpoints")
        if self.slices > 1:
            own.append(f"mesh.replica={self.slices}")
        return ("train", self.preset, *self.overrides, *own, *more, "--resume")

    @property
    def copies(self) -> Mapping[Source, str]:
        """What lies on this machine, each with its place in the bucket, from which workers read it."""
        local = (source for source in self.sources if not source.place.startswith(BUCKET))
        return {source: f"{self.folder}/{source.key}/{PurePath(source.place).name}" for source in local}

    def read_from_bucket(self) -> tuple[str, ...]:
        """Overrides by which workers read the copies."""
        return tuple(f"{source.key}={copy}" for source, copy in self.copies.items())

    def upload(self) -> tuple[Command, ...]:
        """Makes the copies."""
        storage = ("gcloud", "storage")
        return tuple(
            Command((*storage, "cp", source.place, copy))
            if source.place.endswith(SUFFIXES)
            else Command((*storage, "rsync", "--recursive", source.place, copy))
            for source, copy in self.copies.items()
        )

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
