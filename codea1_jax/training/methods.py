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
from codea1_jax.game.rollouts import Candidate, Page, QuestionRollout
from codea1_jax.game.round import Game, PendingRound, RoundResult, begin_round
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


@dataclass(frozen=True)
class PendingStep:
    """A step that is sampled, and is being judged; as `PendingRound`."""

    groups: tuple[tuple[Candidate, ...], ...]
    seconds: Mapping[str, float]
    result: Callable[[], StepRollouts]


Begin = Callable[[Game, Sequence[Problem], Mapping[str, Page], tuple[int, ...]], PendingStep]
"""(game, problems, mistake book, random stream) -> what is sampled, and is being judged."""


def _adversarial(groups: Callable[[Sequence[QuestionRollout]], Mapping[str, Groups]]) -> Begin:
    def begin(
        game: Game, problems: Sequence[Problem], book: Mapping[str, Page], stream: tuple[int, ...]
    ) -> PendingStep:
        def step(result: RoundResult) -> StepRollouts:
            pages = {q.problem.id: q.page_after for q in result.questions}
            return _step(groups(result.questions), result, pages)

        return _pending(begin_round(game, problems, book, stream), step)

    return begin


def _golden(game: Game, problems: Sequence[Problem], _book: Mapping[str, Page], stream: tuple[int, ...]) -> PendingStep:
    def step(result: RoundResult) -> StepRollouts:
        return _step({"code": code_groups(result.questions)}, result, {})

    return _pending(begin_golden(game, problems, stream), step)


def _pending(round_: PendingRound, step: Callable[[RoundResult], StepRollouts]) -> PendingStep:
    return PendingStep(round_.groups, round_.seconds, lambda: step(round_.result()))


def _step(groups: Mapping[str, Groups], result: RoundResult, pages: Mapping[str, Page]) -> StepRollouts:
    return StepRollouts(groups, result.questions, pages, result.seconds, result.hidden)


def _sft(game: Game, problems: Sequence[Problem], _book: Mapping[str, Page], stream: tuple[int, ...]) -> PendingStep:
    """Shown a question and (white box) its reference, the Test LLM must give K golden tests, others each time."""
    groups = []
    for problem in problems:
        golden = plain_golden_tests(problem)
        wanted = min(game.config.scoring.rewards.suite_size, len(golden))
        tests = random.Random(f"{stream} {problem.id}").sample(golden, wanted)
        shown = problem.solution if game.config.white_box else None
        prompt = game.prompts.test(problem.described, problem.entry_point, shown)
        groups.append([Trajectory(prompt, game.prompts.suite(tests), advantage=1.0)])
    return PendingStep((), {}, lambda: StepRollouts({"test": groups}))


def _each_role_alone(questions: Sequence[QuestionRollout]) -> Mapping[str, Groups]:
    return {"code": code_groups(questions), "test": test_groups(questions)}


def _both_roles_together(questions: Sequence[QuestionRollout]) -> Mapping[str, Groups]:
    """Both roles' trajectories of a question in one group, for the one policy: as many updates a step as in a1."""
    pairs = zip(code_groups(questions), test_groups(questions), strict=True)
    return {"code": [[*programs, *suites] for programs, suites in pairs]}


BEGIN: Mapping[str, Begin] = {
    "a1": _adversarial(_each_role_alone),
    "golden": _golden,
    "self_play": _adversarial(_both_roles_together),
    "sft": _sft,
}
