"""What the two models are asked. The Test LLM sees the question and the program under test (white box).

Two styles: chat prompts for pretrained models, and the bare texts on which small models are warm-started.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from codea1_jax.models.tokenizer import Tokenizer

Prompt = tuple[int, ...]

CODE_SYSTEM = "You are an expert Python programmer."
CODE_USER = """Solve the problem below with a Python program that defines `{entry_point}`.
Give the complete program in one ```python block.

{question}"""

TEST_SYSTEM = "You are an expert tester of Python programs. You look for inputs on which a program is wrong."
TEST_USER = """Below are a problem and a program that tries to solve it. Write {suite_size} different tests that hold \
for every correct solution and that this program is likely to fail: think of boundaries, empty inputs and \
misread requirements.
Give them in one ```python block, one test a line, each exactly of the form
assert {entry_point}(arguments) == expected_value

Problem:
{question}

Program:
```python
{program}
```"""


@dataclass(frozen=True)
class Prompts:
    """Builds the token prompts of both roles.

    `code(question, entry_point)` is the Code LLM's prompt; `test(question, entry_point, program)` the Test LLM's.
    """

    code: Callable[[str, str], Prompt]
    test: Callable[[str, str, str], Prompt]


def plain_prompts(tokenizer: Tokenizer) -> Prompts:
    """The texts of the warm start: question, line break, program, end of text, tests, end of text."""
    end = (tokenizer.eos_ids[0],)

    def code(question: str, entry_point: str) -> Prompt:
        return tokenizer.encode(f"{question}\n")

    def test(question: str, entry_point: str, program: str) -> Prompt:
        return tokenizer.encode(f"{question}\n") + tokenizer.encode(program) + end

    return Prompts(code, test)


def chat_prompts(tokenizer: Tokenizer, suite_size: int) -> Prompts:
    """Instructions in the tokenizer's own chat template."""

    def code(question: str, entry_point: str) -> Prompt:
        user = CODE_USER.format(question=question, entry_point=entry_point)
        return tokenizer.encode_chat(_conversation(CODE_SYSTEM, user))

    def test(question: str, entry_point: str, program: str) -> Prompt:
        user = TEST_USER.format(
            question=question, entry_point=entry_point, program=program.strip("\n"), suite_size=suite_size
        )
        return tokenizer.encode_chat(_conversation(TEST_SYSTEM, user))

    return Prompts(code, test)


def _conversation(system: str, user: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]
