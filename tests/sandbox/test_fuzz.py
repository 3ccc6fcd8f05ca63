"""Random and mutated input for what reads text that others wrote: the answers of programs, and their suites."""

import ast
import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import Execution, Job, Limits, Rejected, Status, SuiteTest, encode, parse_test
from sandbox.grammar import PURE_BUILTINS, PURE_METHODS
from sandbox.host.progress import Progress
from sandbox.host.protocol import MAX_LINE, Report
from sandbox.inside.plain import NotPlainData
from sandbox.inside.transport import _MAKERS, Malformed, pack, unpack
from sandbox.language import OutsideLanguage, read_call

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
COUNTS = pytest.mark.parametrize("count", [3_000, pytest.param(1_000_000, marks=pytest.mark.long)])

SEEDS = (
    "assert f(1, [2, 3], k='a') == {'b': (1, None)}",
    "assert sorted(f(x for x in range(3) if x)) == [1, 2]",
    "assert f('a b'.split(), *[1], k=-2.5) is True, 'message'",
    "assert round(f(1)[0], 2) == 2 ** 3 + len({1, 2})",
)
# fmt: off
PIECES = (
    "__class__", "__globals__", ".", "(", ")", "[", "]", "{", "}", ":", ",", "=", "==", "is", "not", "in",
    "lambda", "f", "g", "x", "eval", "open", "getattr", "id", "hash", "type", "1", "'a'", "*", "**", ";", "\n",
    "await", "yield", ":=", "if", "else", "for", "async", "f'{x}'", "\\", "\x00", "é", "#", "@", "->", "print",
    "__import__", "globals", "format", "import", "def", "class", "return", "assert",
)
# fmt: on


def mutated(rng: random.Random) -> str:
    """A suite's line after a few random edits."""
    text = rng.choice(SEEDS)
    for _ in range(rng.randint(1, 5)):
        at, end = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
        piece = rng.choice((*PIECES, rng.choice(string.printable), text[at:end]))
        text = text[:at] + piece + text[at if rng.random() < 0.5 else min(end, at + 6) :]
    return text


def assert_in_language(expression: str, calls: int) -> None:
    """An independent reading of the language: only these names, nodes and methods."""
    tree = ast.parse(expression, mode="eval")
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    assert names.count("f") == calls
    assert set(names) <= PURE_BUILTINS | bound | {"f"}
    assert not bound & (PURE_BUILTINS | {"f"})
    methods = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert methods <= PURE_METHODS
    forbidden = ast.Lambda | ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.JoinedStr
    assert not any(isinstance(node, forbidden) for node in ast.walk(tree))


@COUNTS
def test_no_mutated_suite_gets_anything_outside_the_language_accepted(count):
    rng = random.Random(0)
    accepted = 0
    for _ in range(count):
        try:
            statements = ast.parse(mutated(rng)).body
        except (SyntaxError, ValueError):
            continue
        for statement in statements:
            test = parse_test(statement, "f", {"x": ast.Constant(1)})
            assert isinstance(test, SuiteTest | Rejected)
            if isinstance(test, SuiteTest):
                accepted += 1
                assert_in_language(test.call, calls=1)
                assert_in_language(test.stated, calls=0)
                assert read_call(test.call).function == "f"
    assert accepted > count / 100


@COUNTS
def test_whatever_a_child_writes_is_read_as_one_outcome_per_call(count):
    rng = random.Random(0)
    alphabet = b"=!?mtc\n\n\n0123abc[]\"'\\ \x00\xff\x7f\xe2\x80\xa8"
    calls = ("f(1)", "f(2)", "f(3)")
    for _ in range(count):
        progress, execution = Progress(Job("", calls), Limits()), None
        while not isinstance(execution, Execution):
            progress.request()
            data = bytes(rng.choices(alphabet, k=rng.randint(0, 60))) + b"x" * rng.choice((0, 0, 0, MAX_LINE)) + b"\n"
            execution = progress.absorb(Report(rng.choice((0, 9, 256, 27)), 0.1, 0.1, False), data[rng.randint(0, 2) :])
        assert len(execution.outcomes) == len(calls)
        for outcome in (*execution.outcomes, execution.loaded):
            text = outcome.value if outcome.status is Status.RETURNED else outcome.detail
            assert text is not None
            assert text.isascii() and (text.isprintable()) and len(text) <= MAX_LINE


@given(st.text(max_size=60))
@settings(deadline=None, max_examples=300)
def test_any_text_is_a_call_of_the_language_or_refused(text):
    try:
        read_call(text)
    except OutsideLanguage:
        return
    ast.parse(text.strip(), mode="eval")


SCALARS = st.none() | st.booleans() | st.integers(-9, 2100) | st.integers() | st.floats() | st.text(max_size=5)
ABOUT = (
    SCALARS | st.sampled_from(["<f8", "|b1", "<U2", "|O", "<M8[ns]", "int", "x y", "P"]) | st.lists(st.integers(0, 4))
)
PACKED = st.recursive(
    SCALARS | st.just({}),
    lambda packed: st.builds(
        lambda kind, parts, about: [kind, parts, *about],
        st.sampled_from(sorted(_MAKERS)),
        st.integers(0, 5) | st.lists(packed, max_size=8),
        st.lists(ABOUT, max_size=2),
    ),
    max_leaves=12,
)


@given(PACKED)
@settings(deadline=None, max_examples=500)
def test_any_message_between_the_processes_is_a_value_or_malformed(packed):
    try:
        value = unpack(packed)
    except Malformed:
        return
    try:
        text = encode(value)
    except NotPlainData:
        return
    assert encode(unpack(pack(value))) == text
