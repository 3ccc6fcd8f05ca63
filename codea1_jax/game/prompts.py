"""What the two models are asked, as tokens. The Test LLM sees the question and the program under test (white box), or
the question alone (black box).

UnLeakedTestBench asks for one test at a time instead of a suite.

Two styles: chat prompts for pretrained models, whose words each kind of task has (`game.tasks`), and the bare texts on
which small models are warm-started.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from codea1_jax.common.errors import UserError
from codea1_jax.config.prompts import BUILT_IN_TEMPLATES, Templates
from codea1_jax.game.tasks import function, task_of, test_messages
from codea1_jax.models.tokenizer import Message, Tokenizer
from data_pipeline import Problem

Prompt = tuple[int, ...]

PAPER_CONTEXT, PAPER_PROMPT = 16_384, 4_096  # tokens


@dataclass(frozen=True)
class Prompts:
    """Builds the token prompts of both roles.

    `code(problem)` is the Code LLM's prompt; `test(problem, program)` the Test LLM's, with no program (None) in
    black-box play. `test_function(problem, earlier)` asks for another test function, in a conversation with those
    earlier responses, cut where it grows too long (`cut_conversation`). `suite(problem, tests)` is the response that
    gives these tests, to its end of text. `begins(problem)` says whether the prompt already begins the response's block
    of code.
    """

    code: Callable[[Problem], Prompt]
    test: Callable[[Problem, str | None], Prompt]
    test_function: Callable[[Problem, Sequence[str]], Prompt]
    suite: Callable[[Problem, Sequence[str]], Prompt]
    begins: Callable[[Problem], bool] = lambda _: False


def plain_prompts(tokenizer: Tokenizer) -> Prompts:
    """The texts of the warm start: question, line break, program, end of text, tests, end of text."""
    end = (tokenizer.eos_ids[0],)

    @cache  # a question is asked in every epoch
    def code(problem: Problem) -> Prompt:
        return tokenizer.encode(f"{problem.question}\n")

    def test(problem: Problem, program: str | None) -> Prompt:
        return tokenizer.encode(f"{problem.described}\n") + tokenizer.encode(program or "") + end

    def test_function(problem: Problem, earlier: Sequence[str]) -> Prompt:
        raise UserError("a model with prompts=plain holds no conversation: leave --protocol paper out")

    def suite(problem: Problem, tests: Sequence[str]) -> Prompt:
        return tokenizer.encode("\n".join(tests)) + end

    return Prompts(code, test, test_function, suite)


def chat_prompts(
    tokenizer: Tokenizer,
    suite_size: int,
    *,
    answers: bool = True,
    short: bool = False,
    templates: Templates = BUILT_IN_TEMPLATES,
    own: bool = False,
) -> Prompts:
    """Instructions in the tokenizer's own chat template.

    Without `answers`, a test is what is put in only. `short` asks for a suite without strategies and without a
    suspicion against the program, as of a Test LLM that learns, or started, from a reference's tests. templates: a
    user's, in place of ours. own: problems that have a conversation of their own (`Problem.prompt`) are asked by it.
    """

    def is_own(problem: Problem) -> bool:
        return own and bool(problem.prompt)

    @cache  # a question is asked in every epoch
    def code(problem: Problem) -> Prompt:
        if is_own(problem):
            return tokenizer.encode_chat(json.loads(problem.prompt))
        begun = tokenizer.encode(function.begun(problem)) if begins(problem) else ()
        return tokenizer.encode_chat(task_of(problem).code_messages(problem, templates)) + begun

    def test(problem: Problem, program: str | None) -> Prompt:
        asked = test_messages(problem, program, suite_size, templates, answers=answers, short=short)
        return tokenizer.encode_chat(asked)

    def test_function(problem: Problem, earlier: Sequence[str]) -> Prompt:
        return cut_conversation(tokenizer, task_of(problem).test_function_messages(problem, earlier, templates))

    def suite(problem: Problem, tests: Sequence[str]) -> Prompt:
        return (*tokenizer.encode(task_of(problem).suite_answer(tests)), tokenizer.eos_ids[0])

    def begins(problem: Problem) -> bool:
        return not is_own(problem) and bool(function.begun(problem))

    return Prompts(code, test, test_function, suite, begins)


def cut_conversation(tokenizer: Tokenizer, messages: Sequence[Message]) -> Prompt:
    """The prompt as the authors of Code-A1 cut it: of a conversation of more than `PAPER_CONTEXT` tokens the system's
    part, the last response and the last request; of a prompt the last `PAPER_PROMPT` tokens.
    """
    if len(tokenizer.encode(" ".join(message["content"] for message in messages))) > PAPER_CONTEXT:
        messages = [messages[0], *messages[-2:]]
    return tokenizer.encode_chat(messages)[-PAPER_PROMPT:]
