"""Values compared up to a tolerance: what is close, and that no program can make itself so."""

import math
import random
from itertools import repeat
from typing import Any

import pytest
from plain_values import IMPORTS, LINES

from sandbox import JudgeJob, SandboxPool, Status, Test, Tolerance, encode, parse_test
from sandbox.syntax import parse_module

WIDE = Tolerance(atol=0.25, rtol=0.01)


def close(value: Any, expected: Any, atol: float, rtol: float) -> bool:
    """The rule on Python values instead of texts, for numbers, texts, lists, tuples and dicts by key."""
    if type(value) in (int, float) and type(expected) in (int, float):
        if value == expected:
            return True
        if float(value).is_integer() and float(expected).is_integer():
            return False
        return abs(value - expected) <= max(atol, rtol * abs(expected))
    if type(value) is type(expected) and isinstance(value, list | tuple):
        return len(value) == len(expected) and all(map(close, value, expected, repeat(atol), repeat(rtol)))
    if isinstance(value, dict) and isinstance(expected, dict):
        return value.keys() == expected.keys() and all(close(value[k], expected[k], atol, rtol) for k in value)
    return value == expected


def value_of(draw: random.Random, depth: int) -> Any:
    kind = draw.choice(
        ["float", "float", "int", "text", "list", "tuple", "dict"] if depth else ["float", "int", "text"]
    )
    items = range(draw.randrange(4))
    match kind:
        case "float":
            return draw.choice(
                [draw.uniform(-3, 3), draw.uniform(-1e6, 1e6), 10.0 ** draw.randrange(-12, 12), 0.0, 0.1]
            )
        case "int":
            return draw.randrange(-3, 1000)
        case "text":
            return draw.choice(["", "0.5", "[1.5, 2]", 'a"b\\', "é, 1.25"])
        case "list":
            return [value_of(draw, depth - 1) for _ in items]
        case "tuple":
            return tuple(value_of(draw, depth - 1) for _ in items)
    return {draw.choice("abc") + '"': value_of(draw, depth - 1) for _ in items}


def nearby(draw: random.Random, value: Any) -> Any:
    """The same value with some of its numbers moved, by more or by less."""
    if type(value) in (int, float):
        moved = value + draw.choice([0, 0, 1e-13, -1e-9, 1e-7, 0.2, 0.3, 1]) * draw.choice([1, abs(value)])
        return round(moved) if type(value) is int else moved
    if isinstance(value, list | tuple):
        return type(value)(nearby(draw, item) for item in value)
    if isinstance(value, dict):
        return {key: nearby(draw, item) for key, item in value.items()}
    return value


def test_canonical_texts_are_close_exactly_where_the_values_are():
    draw = random.Random(0)
    counts = {True: 0, False: 0}
    for _ in range(3000):
        expected = value_of(draw, depth=3)
        value = nearby(draw, expected)
        atol, rtol = draw.choice([(1e-6, 0.0), (0.0, 1e-6), (0.25, 0.0), (1e-9, 1e-9)])
        found = Tolerance(atol, rtol).same(encode(value), encode(expected))
        assert found == close(value, expected, atol, rtol), (value, expected, atol, rtol)
        counts[found and encode(value) != encode(expected)] += 1
    assert min(counts.values()) > 300


def test_without_a_tolerance_values_must_be_equal():
    assert Tolerance().same("0.5", "0.5")
    assert not Tolerance().same("0.5", "0.50000000001")
    assert not Tolerance().same("nan", "nan")


def test_the_expected_value_alone_sets_how_far_a_relative_tolerance_reaches():
    assert Tolerance(rtol=0.5).same("1.5", "3")
    assert not Tolerance(rtol=0.5).same("3", "1.5")  # though it is within half of itself
    assert not Tolerance(rtol=0.5).same("1e-300", "0")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2", "3"),  # whole numbers: 2.0 is written as 2 is
        ("10000000000000000000000", "10000000000000000000001"),
        ("1/3", "0.3333333333333333"),  # not a float
        ("0.3333333333333333", "1/3"),
        ("complex(0.5, 1)", "complex(0.5000001, 1)"),
        ('"0.5"', '"0.50000001"'),
        ("time(12:00:00.5)", "time(12:00:00.500001)"),
        ("timedelta(0, 0, 5)", "timedelta(0, 0, 6)"),
        ("[0.5]", "(0.5,)"),
        ("[0.5, 0.5]", "[0.5]"),
        ("[0.5]", "0.5"),
        ("{0.5}", "[0.5]"),
        ('{"a": 0.5}', '{"b": 0.5}'),
        ("sha256:" + "a" * 64, "sha256:" + "b" * 64),
        ("0.5", "None"),
        ("inf", "0.5"),
        ("0.5", "inf"),
        ("-inf", "inf"),
        ("9" * 400, "0.5"),
    ],
)
def test_what_is_not_a_float_must_be_equal(value, expected):
    for tolerance in (WIDE, Tolerance(atol=1e300), Tolerance(rtol=1e300)):
        assert not tolerance.same(value, expected)


# What a child that a program has taken over might send instead of a canonical text.
FORGED = (
    *("nan", "[nan]", "nan in [0.5]", "-nan", "NaN", "inf", "Infinity", "1e999", "-1e999", "1e-9999", "0x1p-1"),
    *("0.5 ", " 0.5", "0.5\n", "\n0.5", "+0.5", ".5", "0.5.0", "0_0.5", "0,5", "٠.٥", "0.５", "0.5e0", "0.5E-0"),
    *("", "0.5, 0.5", "(0.5)", "[0.5", "0.5]", '"0.5', "0.5/1", "complex(0.5, 0)", "Tolerance(9)", "__import__('os')"),
    *("[" * 100_000, "0." + "5" * 100_000, "1" * 100_000, '"' + "\\" * 100_000, "sha256:0.5", "set()0.5"),
)


@pytest.mark.parametrize("text", FORGED, ids=lambda text: repr(text)[:20])
def test_a_forged_text_is_close_to_nothing_but_a_number_that_is_there(text):
    assert not WIDE.same(text, "0.5")
    assert not WIDE.same(f"[{text}]", "[0.5]")


def test_values_of_every_kind_are_close_to_themselves_or_equal_to_nothing():
    names: dict[str, Any] = {}
    exec(IMPORTS, names)
    texts = [encode(eval(line[0], names)) for line in LINES]
    for text in texts:
        assert WIDE.same(text, text) == (not text.startswith("nan")), text


@pytest.mark.parametrize("wrong", [-1e-9, math.nan, math.inf, True, "1", None])
def test_a_tolerance_is_a_number_of_at_least_0_and_below_infinity(wrong):
    with pytest.raises(ValueError, match=r"^rtol must be a number of at least 0 and below infinity"):
        Tolerance(rtol=wrong)


HOSTILE = {
    "nan": "def f(x): return float('nan')",
    "infinity": "def f(x): return float('inf')",
    "a list of one": "def f(x): return [0.5]",
    "text": "def f(x): return '0.5'",
    "a Fraction without a float": "from fractions import Fraction\ndef f(x): return Fraction(5, 11)",
    "complex": "def f(x): return 0.5 + 0.01j",
    "a float of its own": "class F(float):\n    def __sub__(self, other): return 0.0\n    __rsub__ = __sub__\n"
    "def f(x): return F(0.5)",
    "a float that compares as it likes": "class F(float):\n    def __eq__(self, other): return True\n"
    "    def __le__(self, other): return True\n    def __repr__(self): return '0.5'\ndef f(x): return F(9)",
    "what is subtracted from": "class A:\n    def __rsub__(self, other): return 0.0\n"
    "    def __abs__(self): return 0.0\n    def __float__(self): return 0.5\ndef f(x): return A()",
    "repr replaced": "import builtins\nbuiltins.repr = lambda value: 'close to anything'\n"
    "builtins.abs = lambda value: 0.0\ndef f(x): return 9.25",
    "the tolerance replaced": "import sys\nfor m in list(sys.modules.values()):\n"
    "    for n in ('same', 'EXACT', 'Tolerance', '_TOKEN'):\n"
    "        if hasattr(m, n): setattr(m, n, lambda *a: True)\ndef f(x): return 9.25",
}


@pytest.fixture(scope="module")
def pool():
    with SandboxPool(workers=1, backend="process") as pool:
        yield pool


def test_no_hostile_program_passes_a_test_with_a_tolerance(pool):
    test = Test("f(1)", "0.5", tolerance=WIDE)
    jobs = [JudgeJob(program, (test,)) for program in (*HOSTILE.values(), "def f(x): return 0.74")]
    statuses = [judged.tests[0].status for judged in pool.judge(jobs)]
    assert statuses[-1] is Status.PASSED
    assert [name for name, status in zip(HOSTILE, statuses, strict=False) if status is Status.PASSED] == []


@pytest.mark.parametrize(
    "line",
    [
        "assert abs(f(1) - 5) < 10**9",
        "assert abs(f(1) - 5) <= 9 == True",
        "assert f(1) == pytest.approx(5, rel=1e9)",
        "assert f(1) == approx(5)",
        "assert math.isclose(f(1), 5, rel_tol=9) == True",
        "assert round(f(1), -9) == 0",
    ],
)
def test_a_generated_test_cannot_state_a_tolerance(line):
    assert not hasattr(parse_test(parse_module(line).body[0], "f"), "tolerance")
