"""A function that is called: how it is asked for, and what a test of it is (see `sandbox.language`)."""

from collections.abc import Sequence

from codea1_jax.config import Reading
from codea1_jax.config.prompts import Template, Templates
from codea1_jax.game import disclosed
from codea1_jax.game.suites import PLAIN_RULES, Suite, SuiteRules, extract_suite
from codea1_jax.game.suites import suite_in as read_python
from codea1_jax.game.tasks.asking import Words, asked, conversation, filled, refuse_test_functions
from codea1_jax.models.tokenizer import Message
from data_pipeline import Problem
from data_pipeline.responses import paper_program, program_in
from sandbox import Test
from sandbox.language import read_call

SCRIPTED = "bigcodebench"  # the source of problems that are asked for, and read, as their benchmark does

CODE_SYSTEM = "You complete Python functions."
CODE_USER = """Complete the function `{entry_point}` as the problem below asks. Write the whole function inside one \
```python block, and nothing outside of it.

Problem:
{question}"""

SCRIPT_USER = """Write a self-contained Python script that solves the problem below, in a markdown code block:
```
{question}
```
"""
SCRIPT_BEGUN = """Here is a Python script with a self-contained function that solves the problem and passes its tests:
```python
"""

TEST_SYSTEM = "You write test cases for Python functions."

FUNCTION_SYSTEM = "You write test functions in Python. You answer with one function and nothing else: no explanation \
around it, and no quotation marks."
FUNCTION_USER = """Write a test function for `{entry_point}`. Its code and its description are below. Test a single \
input.

Code:
----
{program}
----

Description:
----
{description}
----

The test function begins with
def test_{entry_point}():"""
ANOTHER_FUNCTION = "Write another test function for the same function. It must differ from all earlier ones, and reach \
other statements and branches."


def code_messages(problem: Problem, templates: Templates) -> list[Message]:
    """The conversation that asks for a program; BigCodeBench's own, without the system's part, for its problems."""
    question = asked(problem)
    if problem.source == SCRIPTED:
        if templates.script is not None:
            return filled(templates.script, question=question.strip())
        return [{"role": "user", "content": SCRIPT_USER.format(question=question.strip())}]
    if templates.code is not None:
        return filled(templates.code, question=question, entry_point=problem.entry_point)
    return conversation(CODE_SYSTEM, CODE_USER.format(question=question, entry_point=problem.entry_point))


def begun(problem: Problem) -> str:
    """What the response of a policy begins with, which is not its own: it continues a block of code."""
    return SCRIPT_BEGUN if problem.source == SCRIPTED else ""


def words(problem: Problem, answers: bool, short: bool) -> Words:
    unit, call = "test" if answers else "call", f"{problem.entry_point}(arguments)"
    each = f"one {unit} a line, each exactly of the form\n{f'assert {call} == expected_value' if answers else call}"
    return Words(
        system=TEST_SYSTEM,
        subject=f"the function `{problem.entry_point}`" if short else f"`{problem.entry_point}`",
        unit=unit,
        form=f"Write them inside one ```python block, {each}" if short else f"One ```python block, and in it {each}",
        place="the block",
    )


def test_function_messages(problem: Problem, earlier: Sequence[str], templates: Templates) -> list[Message]:
    """UnLeakedTestBench's own conversation: it asks for a test function, then for another after each response.

    Raises UserError for functions of lists or trees: their test functions would have to make nodes.
    """
    if problem.signatures:
        return refuse_test_functions(problem, earlier, templates)
    fields = {"entry_point": problem.entry_point, "program": problem.solution, "description": problem.described}
    first = templates.function or Template(system=FUNCTION_SYSTEM, user=FUNCTION_USER)
    messages = filled(first, **fields)
    another = filled(templates.another or Template(user=ANOTHER_FUNCTION), entry_point=problem.entry_point)
    for response in earlier:
        messages += [{"role": "assistant", "content": response}, *another]
    return messages


def suite_answer(tests: Sequence[str]) -> str:
    return "\n".join(["```python", *tests, "```"]) if tests else ""


def shown(test: Test, problem: Problem) -> tuple[str, str]:
    return test.call, test.expected


def read_program(response: str, problem: Problem, reading: Reading) -> str:
    return paper_program(response) if reading == "paper" else program_in(response, problem.entry_point)


def read_suite(response: str, problem: Problem, reading: Reading, rules: SuiteRules) -> Suite:
    return extract_suite(response, problem.entry_point, reading, rules)


def suite_in(text: str, problem: Problem, rules: SuiteRules = PLAIN_RULES) -> Suite:
    """Tests that were written down as `data_pipeline.golden.spelled` has them, or as any Python."""
    return read_python(text, problem.entry_point, rules)


is_allowed = disclosed.is_allowed


def view(call: str) -> str:
    """What a test looks at in the value that the call returns; "": at all of it."""
    return read_call(call).view or ""
