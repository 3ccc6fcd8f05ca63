"""How long what is missing will take, before it is begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from codea1_jax.reproduce.commands import Command

# First guesses, of one processor core: a step of training by method, what else a run takes, and an evaluation.
# On a 2-core AMD EPYC machine, 256 questions held out: micro/a1 took 69.5 s of its cores for 12 steps, 46.1 s for 2.
STEP_SECONDS = {"golden": 0.5, "sft": 0.2, "static_base": 0.5, "static_sft": 0.5, "static_a1": 0.5}
STEP_SECONDS_OF_TWO_ROLES = 2.3
RUN_SECONDS, WARM_START_SECONDS, EVALUATION_SECONDS = 41.0, 55.0, 30.0


@dataclass(frozen=True)
class Estimate:
    """seconds: of all that is missing, run in parallel. measured: how many of these by others like them."""

    seconds: float
    measured: int


def estimate(commands: Sequence[Command], steps: int, at_once: int) -> Estimate:
    """The time of the unfinished ones: that of finished ones that differ only in their seed, else a first guess."""
    known: dict[str, list[float]] = {}
    for command in commands:
        if command.finished and command.seconds is not None:
            known.setdefault(kind(command), []).append(command.seconds)
    missing = [command for command in commands if not command.finished]
    seconds = [fmean(known[kind(command)]) if kind(command) in known else guess(command, steps) for command in missing]
    return Estimate(sum(seconds) / at_once, sum(kind(command) in known for command in missing))


def kind(command: Command) -> str:
    """What a command has in common with those for other seeds."""
    return command.directory.name.rpartition("-seed")[0]


def guess(command: Command, steps: int) -> float:
    """Seconds of a command that nothing like it has been run of."""
    if command.arguments[0] != "train":
        return EVALUATION_SECONDS
    if kind(command) == "base":
        return RUN_SECONDS + WARM_START_SECONDS
    return RUN_SECONDS + steps * STEP_SECONDS.get(kind(command), STEP_SECONDS_OF_TWO_ROLES)
