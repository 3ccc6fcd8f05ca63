"""How long what is missing will take, before it is begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from codea1_jax.reproduce.commands import Command


@dataclass(frozen=True)
class Estimate:
    """Seconds of what is missing, one command after the other.

    measured: how many of the commands are known by others like them; unknown: how many are not expected to take any
    particular time, and count as nothing.
    """

    seconds: float
    measured: int
    unknown: int


def estimate(commands: Sequence[Command]) -> Estimate:
    """The time of the unfinished ones: that of finished ones that differ only in their seed, else what is expected."""
    known: dict[str, list[float]] = {}
    for command in commands:
        if command.finished and command.seconds is not None:
            known.setdefault(like(command), []).append(command.seconds)
    missing = [command for command in commands if not command.finished]
    seconds = [fmean(known[like(command)]) if like(command) in known else command.expected for command in missing]
    return Estimate(
        sum((each for each in seconds if each is not None), start=0.0),
        sum(like(command) in known for command in missing),
        seconds.count(None),
    )


def like(command: Command) -> str:
    """What a command has in common with those for other seeds."""
    name, seed, _ = command.directory.name.rpartition("-seed")
    return name if seed else command.directory.name
