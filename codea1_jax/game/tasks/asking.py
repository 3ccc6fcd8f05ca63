"""What the Test LLM is asked in words, whatever kind of test is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

from codea1_jax.common.errors import UserError
from codea1_jax.config.prompts import Template, Templates
from codea1_jax.models.tokenizer import Message
from data_pipeline import Problem
from sandbox import nodes

GIVEN = "Programs may use this class without defining it:"
WRITTEN = {
    "ListNode": "In tests a linked list is written as the list of its values: [1, 2, 3]; the empty one as [].",
    "TreeNode": "In tests a binary tree is written as the list of its values in level order, with None for a missing "
    "child and no None at the end: [1, None, 2] has a right child alone; the empty one as [].",
}

TEST_USER = """# Role
You look for inputs on which {culprit} and the problem's requirements disagree.

# Task
Write {suite_size} different {unit}s that reveal bugs in {subject}.

# Strategies
{strategies}
Do not spend a {unit} on what another one covers. Only the first {suite_size} count: put the strongest first.

{context}

# Format
{form}"""
SHORT_TEST_USER = """Write {suite_size} different {unit}s that check {subject} of the problem below. {form}
and nothing outside of {place}.

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


@dataclass(frozen=True)
class Words:
    """How one kind of task speaks of its tests.

    subject: what is tested. unit: what one test is called. form: what a suite looks like. place: what it may not stand
    outside of.
    """

    system: str
    subject: str
    unit: str
    form: str
    place: str


def asked(problem: Problem) -> str:
    """The question as those who write programs are shown it: with the classes of nodes that it does not show itself."""
    given = [nodes.DEFINITIONS[name] for name in problem.node_classes if f"class {name}" not in problem.question]
    return "\n\n".join([problem.question, *(f"{GIVEN}\n{each}" for each in given)])


def described(problem: Problem) -> str:
    """The question as those who write tests are shown it: with how lists and trees are written."""
    return "\n\n".join([problem.described, *(WRITTEN[name] for name in problem.node_classes)])


def ask_for_suite(
    problem: Problem, program: str | None, suite_size: int, words: Words, *, short: bool
) -> list[Message]:
    strategies = [BOUNDARIES, *([] if program is None else [BRANCHES]), STRUCTURES]
    context = TEST_QUESTION.format(question=described(problem))
    if program is not None:
        context += TEST_PROGRAM.format(heading="Program" if short else SUSPECT, program=program.strip("\n"))
    request = (SHORT_TEST_USER if short else TEST_USER).format(
        culprit="solutions" if program is None else "a program",
        suite_size=suite_size,
        unit=words.unit,
        subject=words.subject,
        strategies="\n".join(f"{i}. {strategy}" for i, strategy in enumerate(strategies, start=1)),
        context=context,
        form=words.form,
        place=words.place,
    )
    return conversation(words.system, request)


def refuse_test_functions(problem: Problem, earlier: Sequence[str], templates: Templates) -> list[Message]:
    """Raises UserError: UnLeakedTestBench's conversation asks for tests of functions."""
    raise UserError(f"{problem.id}: test functions are asked for functions alone: leave --protocol paper out")


def filled(template: Template, **fields: object) -> list[Message]:
    user = template.user.format(**fields)
    return (
        [{"role": "user", "content": user}]
        if template.system is None
        else conversation(template.system.format(**fields), user)
    )


def conversation(system: str, user: str) -> list[Message]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]
