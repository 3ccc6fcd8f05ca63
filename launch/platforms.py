"""What platforms have in common: steps, and the options that more than one of them takes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from codea1_jax.config import Config
from launch import checks
from launch.checks import Check
from launch.job import Job
from launch.shell import Command


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
        raise NotImplementedError

    @property
    def checks(self) -> tuple[Check, ...]:
        raise NotImplementedError

    @property
    def checking(self) -> tuple[Command, ...]:
        return tuple(check.command for check in self.checks)

    def check(self) -> Step:
        return Step(self.checking, self.perform_checks)

    def perform_checks(self) -> None:
        checks.perform(self.checks, self.options.skip)


def add_instead(parser: argparse.ArgumentParser) -> None:
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--eval", default="", metavar="ARGUMENTS", help="run `codea1 eval ARGUMENTS` on one host")
    proof = "run `codea1 selftest` on all hosts instead, minutes"
    instead.add_argument("--selftest", dest="proves", action="store_true", help=proof)
