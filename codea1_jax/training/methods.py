"""What each of the compared methods plays in a step, and which policy learns from what (arXiv 2603.15611, section 4).

Who plays which role is in `config.method`. A method knows no parameters and no optimizers; the loop in `train` knows no
method.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from codea1_jax.game.export import code_groups, test_groups
from codea1_jax.game.golden import begin_golden
from codea1_jax.game.rollouts import Page, QuestionRollout
from codea1_jax.game.round import Game, Pending, RoundResult, begin_round
from codea1_jax.learn import Groups, Trajectory
from data_pipeline import Problem
from data_pipeline.golden import plain_golden_tests


@dataclass(frozen=True)
class StepRollouts:
    """What a step has played.

    groups: what each policy learns from, by its name, in the order of update. book_updates: the mistake book's new
    pages, by question id. seconds, hidden: as in `RoundResult`. figures: metrics of how it was sampled
    (`Counters.goodput`).
    """

    groups: Mapping[str, Groups]
    questions: tuple[QuestionRollout, ...] = ()
    book_updates: Mapping[str, Page] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    hidden: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)


Begin = Callable[[Game, Sequence[Problem], Mapping[str, Page], tuple[int, ...]], Pending[StepRollouts]]
"""(game, problems, mistake book, random stream) -> what is sampled, and is being judged."""


def _a1(
    game: Game, problems: Sequence[Problem], book: Mapping[str, Page], stream: tuple[int, ...]
) -> Pending[StepRollouts]:
    def learned_from(result: RoundResult) -> StepRollouts:
        return _adversarial(result, {"code": code_groups(result.questions), "test": test_groups(result.questions)})

    return begin_round(game, problems, book, stream).map(learned_from)


def _self_play(
    game: Game, problems: Sequence[Problem], book: Mapping[str, Page], stream: tuple[int, ...]
) -> Pending[StepRollouts]:
    """Both roles' trajectories of a question in one group, for the one policy: as many updates a step as in a1."""

    def learned_from(result: RoundResult) -> StepRollouts:
        pairs = zip(code_groups(result.questions), test_groups(result.questions), strict=True)
        return _adversarial(result, {"code": [[*programs, *suites] for programs, suites in pairs]})

    return begin_round(game, problems, book, stream).map(learned_from)


def _adversarial(result: RoundResult, groups: Mapping[str, Groups]) -> StepRollouts:
    pages = {question.problem.id: question.page_after for question in result.questions}
    return StepRollouts(groups, result.questions, pages, result.seconds, result.hidden)


def _golden(
    game: Game, problems: Sequence[Problem], _book: Mapping[str, Page], stream: tuple[int, ...]
) -> Pending[StepRollouts]:
    def learned_from(result: RoundResult) -> StepRollouts:
        groups = {"code": code_groups(result.questions)}
        return StepRollouts(groups, result.questions, {}, result.seconds, result.hidden)

    return begin_golden(game, problems, stream).map(learned_from)


def _sft(
    game: Game, problems: Sequence[Problem], _book: Mapping[str, Page], stream: tuple[int, ...]
) -> Pending[StepRollouts]:
    """Shown a question and (white box) its reference, the Test LLM must give K golden tests, others each time."""
    groups = []
    for problem in problems:
        golden = plain_golden_tests(problem)
        wanted = min(game.config.scoring.rewards.suite_size, len(golden))
        tests = random.Random(f"{stream} {problem.id}").sample(golden, wanted)
        shown = problem.solution if game.config.white_box else None
        prompt = game.prompts.test(problem.described, problem.entry_point, shown)
        groups.append([Trajectory(prompt, game.prompts.suite(tests), advantage=1.0)])
    return Pending((), {}, lambda: StepRollouts({"test": groups}))


BEGIN: Mapping[str, Begin] = {"a1": _a1, "golden": _golden, "self_play": _self_play, "sft": _sft}
