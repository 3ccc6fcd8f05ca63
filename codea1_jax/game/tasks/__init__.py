"""What differs between kinds of problems: one module for each, and `task_of`, which gives a problem's.

A kind says how a problem is put to each role, what a test is and how responses are read. Everything else sees programs,
tests (`sandbox.Test`) and verdicts. How the judge runs a kind's programs is in `sandbox`, how its golden tests are
stored in `data_pipeline.golden`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from codea1_jax.config import Reading
from codea1_jax.config.prompts import Templates
from codea1_jax.game.suites import PLAIN_RULES, Suite, SuiteRules
from codea1_jax.game.tasks import classes, function, stream
from codea1_jax.game.tasks.asking import Words, ask_for_suite, described, filled
from codea1_jax.models.tokenizer import Message
from data_pipeline import Problem
from sandbox import Task, Test


@runtime_checkable
class TaskKind(Protocol):
    """What a module of a kind has; `function` describes each. Users' templates are for functions alone."""

    def code_messages(self, problem: Problem, templates: Templates) -> list[Message]: ...

    def words(self, problem: Problem, answers: bool, short: bool) -> Words: ...

    def test_function_messages(
        self, problem: Problem, earlier: Sequence[str], templates: Templates
    ) -> list[Message]: ...

    def suite_answer(self, tests: Sequence[str]) -> str: ...

    def shown(self, test: Test, problem: Problem) -> tuple[str, str]: ...

    def read_program(self, response: str, problem: Problem, reading: Reading) -> str: ...

    def read_suite(self, response: str, problem: Problem, reading: Reading, rules: SuiteRules) -> Suite: ...

    def suite_in(self, text: str, problem: Problem, rules: SuiteRules = PLAIN_RULES) -> Suite: ...

    def is_allowed(self, problem: Problem, call: str) -> bool: ...

    def view(self, call: str) -> str: ...


_KINDS: Mapping[Task, TaskKind] = {Task.FUNCTION: function, Task.CLASS: classes, Task.STREAM: stream}


def task_of(problem: Problem) -> TaskKind:
    return _KINDS[problem.task]


def test_messages(
    problem: Problem,
    program: str | None,
    suite_size: int,
    templates: Templates,
    *,
    answers: bool = True,
    short: bool = False,
) -> list[Message]:
    """The conversation that asks for a suite of tests: `answers` and `short` as in `prompts.chat_prompts`."""
    template = templates.black_box if program is None else templates.sft if short else templates.test
    if template is None or problem.task is not Task.FUNCTION:
        words = task_of(problem).words(problem, answers, short)
        return ask_for_suite(problem, program, suite_size, words, short=short)
    fields = {"question": described(problem), "entry_point": problem.entry_point, "suite_size": suite_size}
    return filled(template, **fields, program=(program or "").strip("\n"))
