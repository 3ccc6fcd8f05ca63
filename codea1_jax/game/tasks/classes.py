"""A class that objects are made of: how it is asked for, and what a test of it is (see `sandbox.classes`)."""

import ast
from collections.abc import Sequence
from functools import partial

from codea1_jax.config import Reading
from codea1_jax.config.prompts import Templates
from codea1_jax.game import disclosed
from codea1_jax.game.suites import PLAIN_RULES, Suite, SuiteRules, extract_suite
from codea1_jax.game.suites import suite_in as read_python
from codea1_jax.game.tasks import function
from codea1_jax.game.tasks.asking import Words, asked, conversation, refuse_test_functions
from codea1_jax.models.tokenizer import Message
from data_pipeline import Problem
from sandbox import Test, classes

CODE_SYSTEM = "You write Python classes."
CODE_USER = """Write the class `{entry_point}` as the problem below asks. Write the whole class inside one ```python \
block, and nothing outside of it.

Problem:
{question}"""

TEST_SYSTEM = "You write test cases for Python classes."
FORM = """one test after the other, each exactly of the form
made = {entry_point}(arguments)
made.method(arguments)
assert made.method(arguments){stated}"""
ONE_CALL = "\nWhere one call is enough: assert {entry_point}(arguments).method(arguments){stated}"

test_function_messages = refuse_test_functions
read_program, suite_answer, view = function.read_program, function.suite_answer, function.view


def code_messages(problem: Problem, templates: Templates) -> list[Message]:
    user = CODE_USER.format(entry_point=problem.entry_point, question=asked(problem))
    return conversation(CODE_SYSTEM, user)


def words(problem: Problem, answers: bool, short: bool) -> Words:
    name, stated = f"`{problem.entry_point}`", " == expected_value" if answers else ""
    form = (FORM + ONE_CALL).format(entry_point=problem.entry_point, stated=stated)
    return Words(
        system=TEST_SYSTEM,
        subject=f"the class {name}" if short else name,
        unit="test",
        form=f"Write them inside one ```python block, {form}" if short else f"One ```python block, and in it {form}",
        place="the block",
    )


def shown(test: Test, problem: Problem) -> tuple[str, str]:
    return classes.called(test.call, problem.entry_point), test.expected


def read_suite(response: str, problem: Problem, reading: Reading, rules: SuiteRules) -> Suite:
    """The tests in a response: every assert on an object, with what was done to the object before it."""
    return extract_suite(response, classes.DRIVER, reading, rules, partial(_rewritten, name=problem.entry_point))


def suite_in(text: str, problem: Problem, rules: SuiteRules = PLAIN_RULES) -> Suite:
    return read_python(text, classes.DRIVER, rules, partial(_rewritten, name=problem.entry_point))


def _rewritten(statements: Sequence[ast.stmt], name: str) -> Sequence[ast.stmt]:
    try:
        return classes.rewritten(statements, name)
    except RecursionError:
        return ()


is_allowed = disclosed.are_methods
