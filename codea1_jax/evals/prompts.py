"""What models under evaluation are asked: as in training, and for the rounds of UnLeakedTestBench one test at a time.

As conversations for endpoints, as tokens for policies of ours.
"""

from __future__ import annotations

from collections.abc import Callable

from codea1_jax.evals.generators import TestAsk
from codea1_jax.game.prompts import TEST_SYSTEM, Prompt, Prompts, code_messages, conversation, test_messages
from codea1_jax.models.tokenizer import Message, Tokenizer
from data_pipeline import Problem

ROUND_USER = """Below are a function's description and its code. Write one test that holds for this function{different}.
Give it in one ```python block, exactly of the form
assert {entry_point}(arguments) == expected_value

Description:
{question}

Code:
```python
{program}
```{known}"""

AskPrompt = Callable[[Problem | TestAsk], Prompt]


def messages(ask: Problem | TestAsk, suite_size: int) -> list[Message]:
    """The conversation that asks for a program, a suite, or one more test."""
    if isinstance(ask, Problem):
        return code_messages(ask.question, ask.entry_point)
    problem = ask.problem
    if ask.known is None:
        return test_messages(problem.question, problem.entry_point, ask.program, suite_size)
    written = "\n".join(ask.known)
    user = ROUND_USER.format(
        different=", different from those written before" if written else "",
        entry_point=problem.entry_point,
        question=problem.question,
        program=ask.program.strip("\n"),
        known=f"\n\nWritten before:\n```python\n{written}\n```" if written else "",
    )
    return conversation(TEST_SYSTEM, user)


def chat_asks(tokenizer: Tokenizer, suite_size: int) -> AskPrompt:
    """Conversations in the tokenizer's own chat template."""
    return lambda ask: tokenizer.encode_chat(messages(ask, suite_size))


def plain_asks(tokenizer: Tokenizer, prompts: Prompts) -> AskPrompt:
    """The bare texts of small models; tests written before are the beginning of the answer to continue with."""

    def prompt(ask: Problem | TestAsk) -> Prompt:
        if isinstance(ask, Problem):
            return prompts.code(ask.question, ask.entry_point)
        known = "".join(f"{test}\n" for test in ask.known or ())
        return prompts.test(ask.problem.question, ask.problem.entry_point, ask.program) + tokenizer.encode(known)

    return prompt
