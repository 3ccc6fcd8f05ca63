"""What a step plays: the next questions, and further ones in place of those that teach nothing."""

from collections.abc import Sequence
from dataclasses import replace

import grain

from codea1_jax.config import METHODS
from codea1_jax.game.rollouts import QuestionRollout, StepRollouts
from codea1_jax.game.selection import can_teach
from codea1_jax.training.parts import Training
from codea1_jax.training.state import State
from codea1_jax.training.step import book_after, play
from data_pipeline import Problem

REFILL_STREAM = 2**31 - 2  # no training step has this number, nor has an evaluation

Draws = grain.DatasetIterator[tuple[Problem, ...]]


def play_step(training: Training, state: State, questions: Draws) -> StepRollouts:
    """A step's rollouts; with `train.refill` the rounds that fill its groups, and of them what each policy learns from.

    The questions and the random streams follow from the state alone: a resumed run plays the same.
    """
    before, most = training.games.counters(), training.config.train.refill
    played = play(training, state, next(questions))
    rounds = 0
    while rounds < most and not _is_full(training, played):
        following = replace(state, book=book_after(training, state, played))
        problems, stream = next(questions), (REFILL_STREAM, state.step, rounds)
        played = _joined(played, play(training, following, problems, stream))
        rounds += 1
    if not most:
        return played
    groups = {name: _chosen(training, played, name) for name in played.groups}
    dropped = {
        f"{name}/dropped_tokens": float(_tokens(played.groups[name]) - _tokens(kept)) for name, kept in groups.items()
    }
    figures = training.games.goodput(before, played.seconds)
    return replace(played, groups=groups, figures={**figures, **dropped, "refill/rounds": float(rounds)})


def _is_full(training: Training, played: StepRollouts) -> bool:
    wanted = training.config.train.questions
    return all(sum(_teaches(training, each, name) for each in played.questions) >= wanted for name in played.groups)


def _chosen(training: Training, played: StepRollouts, name: str) -> list:
    """The groups that a policy learns from, in the order of playing: those that teach it something before others."""
    last = sorted(range(len(played.questions)), key=lambda i: not _teaches(training, played.questions[i], name))
    return [played.groups[name][i] for i in sorted(last[: training.config.train.questions])]


def _teaches(training: Training, question: QuestionRollout, name: str) -> bool:
    roles = METHODS[training.config.method.name].roles
    return any(can_teach(question, role) for role, policy in roles.items() if policy == name)


def _joined(played: StepRollouts, more: StepRollouts) -> StepRollouts:
    return StepRollouts(
        (*played.questions, *more.questions),
        {stage: took + more.seconds[stage] for stage, took in played.seconds.items()},
        {stage: took + more.hidden[stage] for stage, took in played.hidden.items()},
        {name: [*groups, *more.groups[name]] for name, groups in played.groups.items()},
    )


def _tokens(groups: Sequence[Sequence]) -> int:
    return sum(len(trajectory.completion) for group in groups for trajectory in group)
