"""What the two models are asked. The Test LLM sees the question and the program under test (white box), or the question
alone (black box).

UnLeakedTestBench asks for one test at a time instead of a suite.

Two styles: chat prompts for pretrained models, and the bare texts on which small models are warm-started.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codea1_jax.common.errors import UserError
from codea1_jax.config.prompts import OUR_TEMPLATES, Template, Templates
from codea1_jax.models.tokenizer import Message, Tokenizer

Prompt = tuple[int, ...]

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
TEST_USER = """# Role
You look for inputs on which {culprit} and the problem's requirements disagree.

# Task
Write {suite_size} different {unit}s that reveal bugs in `{entry_point}`.

# Strategies
{strategies}
Do not spend a {unit} on what another one covers. Only the first {suite_size} count: put the strongest first.

{context}

# Format
One ```python block, and in it one {unit} a line, each exactly of the form
{form}"""
SHORT_TEST_USER = """Write {suite_size} different {unit}s that check the function `{entry_point}` of the problem \
below. Write them inside one ```python block, one {unit} a line, each exactly of the form
{form}
and nothing outside of the block.

{context}"""
BOUNDARIES = "boundary and extreme inputs: empty, minimal, huge, negative or repeated values"
BRANCHES = (
    "inputs that follow the program's own branches, above all where it is simpler than the problem: a condition that "
    "is missing, a rule that is misread, a case that is left out"
)
STRUCTURES = "larger, structured inputs: nested or long ones, in which several rules apply at once"
SUSPECT = "Program under test, which may be wrong"
TEST_QUESTION = "# Problem\n{question}"
TEST_PROGRAM = """

# {heading}
```python
{program}
```"""

NEXT_TEST_USER = """Below are a function's description and its code. Write one test that holds for this \
function{different}.
Give it in one ```python block, exactly of the form
assert {entry_point}(arguments) == expected_value

Description:
{question}

Code:
```python
{program}
```{known}"""

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


PAPER_CONTEXT, PAPER_PROMPT = 16_384, 4_096  # tokens


@dataclass(frozen=True)
class Prompts:
    """Builds the token prompts of both roles.

    `code(question, entry_point)` is the Code LLM's prompt; `test(question, entry_point, program)` the Test LLM's, with
    no program (None) in black-box play. `next_test(question, entry_point, program, known)` asks for one more test than
    those known. `test_function(description, entry_point, program, earlier, cut)` asks for another test function, in a
    conversation with those earlier responses, whole or as `cut_conversation` cuts it. `suite(tests)` is the response
    that gives these tests, to its end of text. `script(question)` asks for a program as BigCodeBench does, and has the
    response begin with the opening of a code block; None if there are no chat prompts. `own(prompt)` asks by a
    problem's own conversation (`Problem.prompt`); None: none is asked by its own.
    """

    code: Callable[[str, str], Prompt]
    test: Callable[[str, str, str | None], Prompt]
    next_test: Callable[[str, str, str, Sequence[str]], Prompt]
    test_function: Callable[[str, str, str, Sequence[str], bool], Prompt]
    suite: Callable[[Sequence[str]], Prompt]
    script: Callable[[str], Prompt] | None = None
    own: Callable[[str], Prompt] | None = None


def plain_prompts(tokenizer: Tokenizer) -> Prompts:
    """The texts of the warm start: question, line break, program, end of text, tests, end of text."""
    end = (tokenizer.eos_ids[0],)

    def code(question: str, entry_point: str) -> Prompt:
        return tokenizer.encode(f"{question}\n")

    def test(question: str, entry_point: str, program: str | None) -> Prompt:
        return tokenizer.encode(f"{question}\n") + tokenizer.encode(program or "") + end

    def next_test(question: str, entry_point: str, program: str, known: Sequence[str]) -> Prompt:
        # The tests written before are the beginning of the answer.
        return test(question, entry_point, program) + tokenizer.encode("".join(f"{line}\n" for line in known))

    def test_function(description: str, entry_point: str, program: str, earlier: Sequence[str], cut: bool) -> Prompt:
        raise UserError("a model with prompts=plain holds no conversation: choose the protocol of rounds")

    def suite(tests: Sequence[str]) -> Prompt:
        return tokenizer.encode("\n".join(tests)) + end

    return Prompts(code, test, next_test, test_function, suite)


def chat_prompts(
    tokenizer: Tokenizer,
    suite_size: int,
    *,
    answers: bool = True,
    short: bool = False,
    templates: Templates = OUR_TEMPLATES,
    own: bool = False,
) -> Prompts:
    """Instructions in the tokenizer's own chat template.

    Without `answers`, tests must be calls only. `short` asks for a suite without strategies and without a suspicion
    against the program, as of a Test LLM that learns, or started, from a reference's tests. templates: a user's, in
    place of ours. own: problems that have a conversation of their own are asked by it.
    """

    def code(question: str, entry_point: str) -> Prompt:
        return tokenizer.encode_chat(code_messages(question, entry_point, templates))

    def test(question: str, entry_point: str, program: str | None) -> Prompt:
        return tokenizer.encode_chat(
            test_messages(question, entry_point, program, suite_size, templates, answers=answers, short=short)
        )

    def next_test(question: str, entry_point: str, program: str, known: Sequence[str]) -> Prompt:
        return tokenizer.encode_chat(next_test_messages(question, entry_point, program, known))

    def test_function(description: str, entry_point: str, program: str, earlier: Sequence[str], cut: bool) -> Prompt:
        messages = test_function_messages(description, entry_point, program, earlier, templates)
        return cut_conversation(tokenizer, messages) if cut else tokenizer.encode_chat(messages)

    def suite(tests: Sequence[str]) -> Prompt:
        return (*tokenizer.encode("\n".join(["```python", *tests, "```"])), tokenizer.eos_ids[0])

    def script(question: str) -> Prompt:
        return tokenizer.encode_chat(script_messages(question, templates)) + tokenizer.encode(SCRIPT_BEGUN)

    def own_prompt(messages: str) -> Prompt:
        return tokenizer.encode_chat(json.loads(messages))

    return Prompts(code, test, next_test, test_function, suite, script, own_prompt if own else None)


def filled(template: Template, **fields: object) -> list[Message]:
    """A user's template as a conversation."""
    user = template.user.format(**fields)
    return (
        [{"role": "user", "content": user}]
        if template.system is None
        else conversation(template.system.format(**fields), user)
    )


def code_messages(question: str, entry_point: str, templates: Templates = OUR_TEMPLATES) -> list[Message]:
    """The conversation that asks for a program."""
    if templates.code is not None:
        return filled(templates.code, question=question, entry_point=entry_point)
    return conversation(CODE_SYSTEM, CODE_USER.format(question=question, entry_point=entry_point))


def script_messages(question: str, templates: Templates = OUR_TEMPLATES) -> list[Message]:
    """BigCodeBench's own conversation, without the system's part."""
    if templates.script is not None:
        return filled(templates.script, question=question.strip())
    return [{"role": "user", "content": SCRIPT_USER.format(question=question.strip())}]


def test_messages(
    question: str,
    entry_point: str,
    program: str | None,
    suite_size: int,
    templates: Templates = OUR_TEMPLATES,
    *,
    answers: bool = True,
    short: bool = False,
) -> list[Message]:
    """The conversation that asks for a suite of tests: `templates`, `answers` and `short` as in `chat_prompts`."""
    template = templates.black_box if program is None else templates.sft if short else templates.test
    if template is not None:
        fields = {"question": question, "entry_point": entry_point, "suite_size": suite_size}
        return filled(template, **fields, program=(program or "").strip("\n"))
    call = f"{entry_point}(arguments)"
    strategies = [BOUNDARIES, *([] if program is None else [BRANCHES]), STRUCTURES]
    context = TEST_QUESTION.format(question=question)
    if program is not None:
        context += TEST_PROGRAM.format(heading="Program" if short else SUSPECT, program=program.strip("\n"))
    request = (SHORT_TEST_USER if short else TEST_USER).format(
        culprit="solutions" if program is None else "a program",
        suite_size=suite_size,
        unit="test" if answers else "call",
        entry_point=entry_point,
        strategies="\n".join(f"{i}. {strategy}" for i, strategy in enumerate(strategies, start=1)),
        context=context,
        form=f"assert {call} == expected_value" if answers else call,
    )
    return conversation(TEST_SYSTEM, request)


def next_test_messages(question: str, entry_point: str, program: str, known: Sequence[str]) -> list[Message]:
    """The conversation that asks for one more test of a function (UnLeakedTestBench, arXiv 2508.00408)."""
    written = "\n".join(known)
    user = NEXT_TEST_USER.format(
        different=", different from those written before" if written else "",
        entry_point=entry_point,
        question=question,
        program=program.strip("\n"),
        known=f"\n\nWritten before:\n```python\n{written}\n```" if written else "",
    )
    return conversation(TEST_SYSTEM, user)


def test_function_messages(
    description: str, entry_point: str, program: str, earlier: Sequence[str], templates: Templates = OUR_TEMPLATES
) -> list[Message]:
    """UnLeakedTestBench's own conversation: it asks for a test function, then for another after each response."""
    fields = {"entry_point": entry_point, "program": program, "description": description}
    ours = Template(system=FUNCTION_SYSTEM, user=FUNCTION_USER)
    messages = filled(templates.function or ours, **fields)
    another = filled(templates.another or Template(user=ANOTHER_FUNCTION), entry_point=entry_point)
    for response in earlier:
        messages += [{"role": "assistant", "content": response}, *another]
    return messages


def cut_conversation(tokenizer: Tokenizer, messages: Sequence[Message]) -> Prompt:
    """The prompt as the authors of Code-A1 cut it: of a conversation of more than `PAPER_CONTEXT` tokens the system's
    part, the last response and the last request; of a prompt the last `PAPER_PROMPT` tokens.
    """
    if len(tokenizer.encode(" ".join(message["content"] for message in messages))) > PAPER_CONTEXT:
        messages = [messages[0], *messages[-2:]]
    return tokenizer.encode_chat(messages)[-PAPER_PROMPT:]


def conversation(system: str, user: str) -> list[Message]:
    """One turn of the user's, to be answered."""
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]
