"""The methods that the tables compare, over one training loop (arXiv 2603.15611, section 4).

A method says which policy plays which role, what is played in a step, and which policy learns from what. It knows no
parameters and no optimizers; the loop in `train` knows no method.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from codea1_jax.game import Page, PlayedQuestion, Round, Rules, Table, play_round
from codea1_jax.game.export import code_groups, test_groups
from codea1_jax.game.golden import play_golden
from codea1_jax.learn import Groups, Trajectory
from codea1_jax.run.config import Section
from data_pipeline import Problem

Role = Literal["code", "test"]


class MethodConfig(Section):
    """Which of the compared methods is run, and what is taken away from it."""

    name: Literal["a1", "golden", "self_play", "sft"] = Field(
        default="a1",
        description="a1: two policies against each other; golden: the Code LLM alone, rewarded by its questions' "
        "golden tests; self_play: one policy in both roles; sft: the Test LLM alone, supervised by golden tests",
    )
    white_box: bool = Field(default=True, description="test prompts show the program under test")
    mistake_book: bool = Field(default=True, description="programs face the tests that earlier ones failed")
    answer_prediction: bool = Field(
        default=True, description="tests state their answers; else the reference fills them in"
    )


@dataclass(frozen=True)
class Played:
    """What a step has played. lessons: by policy, in the order of update; pages: the mistake book's new ones, by id."""

    lessons: Mapping[str, Groups]
    questions: tuple[PlayedQuestion, ...] = ()
    pages: Mapping[str, Page] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    judge_hidden: float = 0.0


Play = Callable[[Table, Sequence[Problem], Mapping[str, Page], tuple[int, ...], Rules], Played]


@dataclass(frozen=True)
class Method:
    """roles: the policy that plays each trained role, named after the configuration's section that it learns by.

    supervised: policies imitate what they are given, instead of weighing it by its advantage.
    needs_golden_tests: nothing can be learned of a question without golden tests.
    """

    roles: Mapping[Role, str]
    play: Play
    supervised: bool = False
    needs_golden_tests: bool = False

    @property
    def policies(self) -> tuple[str, ...]:
        """Every policy once."""
        return tuple(dict.fromkeys(self.roles.values()))


def _adversarial(lessons: Callable[[Sequence[PlayedQuestion]], Mapping[str, Groups]]) -> Play:
    def play(
        table: Table, problems: Sequence[Problem], book: Mapping[str, Page], stream: tuple[int, ...], rules: Rules
    ) -> Played:
        round_ = play_round(table, problems, book, stream, rules)
        pages = {q.problem.id: q.page_after for q in round_.questions}
        return _played(lessons(round_.questions), round_, pages)

    return play


def _golden(
    table: Table, problems: Sequence[Problem], _book: Mapping[str, Page], stream: tuple[int, ...], rules: Rules
) -> Played:
    round_ = play_golden(table, problems, stream, rules)
    return _played({"code": code_groups(round_.questions)}, round_, {})


def _played(lessons: Mapping[str, Groups], round_: Round, pages: Mapping[str, Page]) -> Played:
    return Played(lessons, round_.questions, pages, round_.seconds, round_.judge_hidden)


def _sft(
    table: Table, problems: Sequence[Problem], _book: Mapping[str, Page], stream: tuple[int, ...], rules: Rules
) -> Played:
    """Shown a question and (white box) its reference, the Test LLM is to give golden tests: K, others each time."""
    groups = []
    for problem in problems:
        wanted = min(rules.scoring.rewards.suite_size, len(problem.golden_tests))
        tests = random.Random(f"{stream} {problem.id}").sample(problem.golden_tests, wanted)
        shown = problem.solution if rules.white_box else None
        prompt = table.prompts.test(problem.question, problem.entry_point, shown)
        groups.append([Trajectory(prompt, table.prompts.suite(tests), advantage=1.0)])
    return Played({"test": groups})


def _apart(questions: Sequence[PlayedQuestion]) -> Mapping[str, Groups]:
    return {"code": code_groups(questions), "test": test_groups(questions)}


def _together(questions: Sequence[PlayedQuestion]) -> Mapping[str, Groups]:
    """Both roles' trajectories of a question in one group, for the one policy: as many updates a step as in a1."""
    pairs = zip(code_groups(questions), test_groups(questions), strict=True)
    return {"code": [[*programs, *suites] for programs, suites in pairs]}


METHODS: Mapping[str, Method] = {
    "a1": Method({"code": "code", "test": "test"}, _adversarial(_apart)),
    "self_play": Method({"code": "code", "test": "code"}, _adversarial(_together)),
    "golden": Method({"code": "code"}, _golden, needs_golden_tests=True),
    "sft": Method({"test": "test"}, _sft, supervised=True, needs_golden_tests=True),
}
