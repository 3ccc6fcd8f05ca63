"""A program that reads standard input and writes standard output: how it is asked for, and what a test of it is.

A test is a block labelled `input` and a block labelled `output` behind it. Nothing else in a response counts.
"""

from collections.abc import Sequence

from codea1_jax.config import Reading
from codea1_jax.config.prompts import Templates
from codea1_jax.game import disclosed
from codea1_jax.game.suites import MAX_REJECTED, PLAIN_RULES, RejectedTest, Suite, SuiteRules
from codea1_jax.game.tasks.asking import Words, conversation, refuse_test_functions
from codea1_jax.models.tokenizer import Message
from data_pipeline import Problem
from data_pipeline.responses import MAX_RESPONSE, answer_in, code_blocks, last_program, paper_program
from sandbox import SuiteTest, Test, streams

CODE_SYSTEM = "You write Python programs."
CODE_USER = """Write a Python program that solves the problem below. It reads standard input and writes standard \
output. Write the whole program inside one ```python block, and nothing outside of it.

Problem:
{question}"""

TEST_SYSTEM = "You write test cases for Python programs."
TEST_FORM = """two blocks, what the program reads and what the problem requires it to print:
```input
standard input
```
```output
standard output
```"""
INPUT_FORM = """one block, what the program reads:
```input
standard input
```"""

test_function_messages = refuse_test_functions


def code_messages(problem: Problem, templates: Templates) -> list[Message]:
    return conversation(CODE_SYSTEM, CODE_USER.format(question=problem.question))


def words(problem: Problem, answers: bool, short: bool) -> Words:
    form = TEST_FORM if answers else INPUT_FORM
    return Words(
        system=TEST_SYSTEM,
        subject="a solution" if short else "the program",
        unit="test" if answers else "input",
        form=f"{'Write each' if short else 'Each test' if answers else 'Each input'} as {form}",
        place="the blocks",
    )


def suite_answer(tests: Sequence[str]) -> str:
    return "\n".join(tests)


def shown(test: Test, problem: Problem) -> tuple[str, str]:
    return test.call, streams.text_of(test.expected)


def read_program(response: str, problem: Problem, reading: Reading) -> str:
    return paper_program(response) if reading == "paper" else last_program(response)


def read_suite(response: str, problem: Problem, reading: Reading, rules: SuiteRules) -> Suite:
    """Every pair of blocks in a response, however it is read; without answers, every block of an input."""
    answer = response[:MAX_RESPONSE] if reading == "paper" else answer_in(response)
    blocks = [(block.info.strip().lower(), block.text) for block in code_blocks(answer)]
    tests: list[SuiteTest] = []
    rejected: list[RejectedTest] = []
    for i, (label, given) in enumerate(blocks):
        if label != "input" or len(tests) == rules.most:
            continue
        follows, stated = blocks[i + 1] if i + 1 < len(blocks) else ("", "")
        if follows == "output" or not rules.answers:
            tests.append(SuiteTest(given, stated if rules.answers else ""))
        else:
            rejected.append(RejectedTest(given[:MAX_REJECTED], "an input without an output"))
    return Suite(tuple(tests), tuple(rejected), len(rejected) if rules.junk_counts else 0)


def suite_in(text: str, problem: Problem, rules: SuiteRules = PLAIN_RULES) -> Suite:
    return read_suite(text, problem, "commonmark", rules)


is_allowed = disclosed.is_laid_out


def view(call: str) -> str:
    return ""
