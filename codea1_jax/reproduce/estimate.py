"""How long what is missing will take, before it is begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from codea1_jax.reproduce.works import Work

# First guesses, of one processor core: a step of training by method, what a run takes besides, and an evaluation.
# On a 2-core AMD EPYC machine, 256 questions held out: micro/a1 took 69.5 s of its cores for 12 steps, 46.1 s for 2.
STEP_SECONDS = {"golden": 0.5, "sft": 0.2, "static_base": 0.5, "static_sft": 0.5, "static_a1": 0.5}
STEP_SECONDS_OF_TWO_ROLES = 2.3
RUN_SECONDS, WARM_START_SECONDS, EVALUATION_SECONDS = 41.0, 55.0, 30.0


@dataclass(frozen=True)
class Estimate:
    """seconds: of all that is missing, run in parallel. measured: how many of these by others like them."""

    seconds: float
    measured: int


def estimate(works: Sequence[Work], steps: int, at_once: int) -> Estimate:
    """Of those that are not finished: by finished ones that differ in their seed alone, else by a first guess."""
    known: dict[str, list[float]] = {}
    for work in works:
        if work.finished and work.seconds is not None:
            known.setdefault(kind(work), []).append(work.seconds)
    missing = [work for work in works if not work.finished]
    seconds = [fmean(known[kind(work)]) if kind(work) in known else guess(work, steps) for work in missing]
    return Estimate(sum(seconds) / at_once, sum(kind(work) in known for work in missing))


def kind(work: Work) -> str:
    """What a command has in common with those for other seeds."""
    return work.directory.name.rpartition("-seed")[0]


def guess(work: Work, steps: int) -> float:
    """Seconds of a command that nothing like it has been run of."""
    if work.arguments[0] != "train":
        return EVALUATION_SECONDS
    if kind(work) == "base":
        return RUN_SECONDS + WARM_START_SECONDS
    return RUN_SECONDS + steps * STEP_SECONDS.get(kind(work), STEP_SECONDS_OF_TWO_ROLES)
