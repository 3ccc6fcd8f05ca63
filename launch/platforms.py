"""What platforms have in common: steps, and the options that more than one of them takes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from codea1_jax.config import Config
from launch import checks
from launch.checks import Check
from launch.hardware import Slice, find_slice
from launch.job import Job
from launch.shell import Command, Refused


@dataclass(frozen=True)
class Step:
    """The commands of a step if all goes well, and the function that performs it; without one, the commands are run."""

    commands: Sequence[Command]
    perform: Callable[[], None] | None = None


class Platform:
    """Where a run is launched. Each of `steps` is the method of that name.

    needs_bucket: the steps that cannot do without one.
    """

    description: ClassVar[str]
    steps: ClassVar[tuple[str, ...]]
    needs_bucket: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: argparse.Namespace, job: Job, config: Config | None) -> None:
        self.options, self.job, self.config = options, job, config

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """Adds the platform's own options."""
        raise NotImplementedError

    @property
    def checks(self) -> tuple[Check, ...]:
        """What must hold before anything is started."""
        raise NotImplementedError

    @property
    def checking(self) -> tuple[Command, ...]:
        """The commands of the checks."""
        return tuple(check.command for check in self.checks)

    def check(self) -> Step:
        """Refuses what cannot work."""
        return Step(self.checking, self.perform_checks)

    def perform_checks(self) -> None:
        """Raises Refused if a check fails."""
        checks.perform(self.checks, self.options.skip)


class OfSlices(Platform):
    """A platform of TPU slices, whose results are copied from a bucket."""

    @property
    def slice(self) -> Slice:
        """One of the slices. Raises Refused if none is named."""
        name = self.options.tpu or (self.config.hardware if self.config else None)
        if name is None:
            raise Refused("--tpu: give a slice, as in v5e:4x4, or a preset that is made for one")
        return find_slice(name)

    @property
    def retries(self) -> int:
        """How often failed training is restarted."""
        return (
            0 if self.options.proves else self.options.retries
        )  # a machine that fails its tests would fail them again

    def copy(self) -> Step:
        """Copies the results."""
        return Step(self.job.results())


def add_slices(parser: argparse.ArgumentParser) -> None:
    """The options of slices, and of whoever watches over a run on them."""
    parser.add_argument("--tpu", metavar="KIND:SHAPE", help="the slice, as in v5e:4x4; default: the preset's hardware")
    parser.add_argument("--slices", type=int, default=1, metavar="N", help="number of slices; sets mesh.replica")
    parser.add_argument("--retries", type=int, default=3, metavar="N", help="how often to restart failed training")
    parser.add_argument("--keep", action="store_true", help="`up` keeps the slices or the JobSet")
    parser.add_argument("--poll", type=float, default=30, metavar="SECONDS", help="time between status checks")


def add_instead(parser: argparse.ArgumentParser, *, evaluation: bool = True) -> None:
    """What may be run in place of training."""
    instead = parser.add_mutually_exclusive_group()
    if evaluation:
        instead.add_argument("--eval", metavar="ARGUMENTS", help="run `codea1 eval ARGUMENTS` on one host instead")
    proof = "run `codea1 selftest` on all hosts instead, minutes"
    instead.add_argument("--selftest", dest="proves", action="store_true", help=proof)
