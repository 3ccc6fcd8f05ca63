"""Values of every kind of plain data are judged as Python's ``==`` judges them in an ordinary process."""

import itertools
from pathlib import Path
from typing import Any

import numpy
import pytest
from plain_values import IMPORTS, LINES, NUMPY, REFERENCES, program, value_of

from sandbox import CheckJob, Job, Limits
from sandbox.inside.encoding import MAX_TEXT, encode, same


@pytest.fixture(scope="module")
def values() -> list[Any]:
    return [value_of(expression) for expression in REFERENCES]


def assert_agree(texts: list[str], values: list[Any]) -> None:
    """Whether two texts are the same is what `==` says of their values."""
    for (i, first), (j, second) in itertools.product(enumerate(values), repeat=2):
        assert same(texts[i], texts[j]) == (first == second), (REFERENCES[i], REFERENCES[j])


def test_there_are_at_least_a_hundred_references_and_lines_differ_by_value(values):
    assert len(REFERENCES) >= 100
    lines = [line for line, expressions in enumerate(LINES) for _ in expressions]
    for (i, first), (j, second) in itertools.product(enumerate(values), repeat=2):
        assert (first == second) is (lines[i] == lines[j]), (REFERENCES[i], REFERENCES[j])


def test_texts_are_equal_exactly_where_python_calls_the_values_equal(values):
    texts = [encode(value) for value in values]
    assert_agree(texts, values)
    assert all(text.isascii() and text.isprintable() and len(text) <= MAX_TEXT + 10 for text in texts)


def test_references_are_judged_in_the_jail_as_python_compares_them(numpy_jail, values):
    executions = numpy_jail.execute([Job(program(expression), ("f(1)",)) for expression in REFERENCES])
    outcomes = [execution.outcomes[0] for execution in executions]
    assert [outcome.status.value for outcome in outcomes] == ["returned"] * len(outcomes), outcomes
    assert_agree([outcome.value or "" for outcome in outcomes], values)


ARRAYS = (
    *("numpy.arange(6)", "numpy.arange(6.0)", "numpy.arange(12)[::2] // 2", "numpy.arange(1, 7)", "numpy.arange(5)"),
    *(
        "numpy.arange(6).reshape(2, 3)",
        "numpy.arange(6).reshape(3, 2).T",
        "numpy.arange(6, dtype=object).reshape(2, 3)",
    ),
    *("numpy.zeros((0, 3))", "numpy.zeros((3, 0))", "numpy.zeros(0, dtype=bool)", "numpy.array([0.5, 0, 1])"),
    *("numpy.array([0.5 + 0j, 0, 1])", "numpy.array([0.5, False, True], dtype=object)", "numpy.float32([0.5, 0, 1])"),
    *("numpy.array(['a', 'bc'])", "numpy.array(['a', 'bc'], dtype=object)", "numpy.array(['a', 'b'])"),
    *("numpy.array([b'a', b'bc'])", "numpy.arange(5_000)", "numpy.arange(5_000.0)", "numpy.arange(1, 5_001)"),
)


def test_arrays_are_judged_in_the_jail_as_numpy_compares_them(numpy_jail):
    executions = numpy_jail.execute([Job(program(expression), ("f(1)",)) for expression in ARRAYS])
    texts = [execution.outcomes[0].value or "" for execution in executions]
    arrays = [eval(expression, {"numpy": numpy}) for expression in ARRAYS]
    for (i, first), (j, second) in itertools.product(enumerate(arrays), repeat=2):
        assert same(texts[i], texts[j]) == numpy.array_equal(first, second), (ARRAYS[i], ARRAYS[j])
        assert not same(texts[i], encode(first.tolist())), ARRAYS[i]


NANS = (
    *("float('nan')", "-float('nan')", "complex(0, float('nan'))", "complex(float('nan'), 0)", "Decimal('nan')"),
    *("[float('nan')]", "(1, [float('nan')])", "{1: float('nan')}", "{float('nan')}", "deque([Decimal('-nan')])"),
    *("P(1, float('nan'))", "[0.0] * 5_000 + [float('nan')]", "numpy.float64('nan')", "numpy.array([1, float('nan')])"),
    *("numpy.array(float('nan'))", "numpy.array([None, float('nan')], dtype=object)", "[numpy.float32('nan')]"),
)


@pytest.mark.parametrize("expression", NANS)
def test_a_value_with_a_nan_equals_nothing_not_even_itself(numpy_jail, expression):
    first, second = (eval(expression, names()) for _ in range(2))
    assert not numpy.all(first == second)
    (execution,) = numpy_jail.execute([Job(program(expression), ("f(1)",))])
    text = execution.outcomes[0].value or ""
    assert text and not same(text, text)
    (result,) = numpy_jail.execute([CheckJob(program(expression), f"{IMPORTS}{NUMPY}assert f(1) == {expression}", "f")])
    assert not result.passed


def names() -> dict[str, Any]:
    """What an expression may use."""
    found: dict[str, Any] = {}
    exec(IMPORTS + NUMPY, found)
    return found


CHECK = (
    IMPORTS
    + """
def check(f):
    out, exp = f(1), {}
    assert out == exp and type(out).__name__ == type(exp).__name__
"""
)


def test_a_check_gets_each_value_as_what_it_is(numpy_jail):
    jobs = [CheckJob(program(expression), CHECK.replace("{}", expression, 1), "f") for expression in REFERENCES]
    for expression, result in zip(REFERENCES, numpy_jail.execute(jobs), strict=True):
        assert result.passed, (expression, result.verdict)


def test_no_other_value_passes_a_check(numpy_jail):
    check = IMPORTS + "def check(f):\n    assert f(1) == {}"
    firsts = [line[0] for line in LINES]
    jobs = [CheckJob(program(other), check.format(own), "f") for own, other in itertools.pairwise(firsts)]
    assert {result.verdict.status.value for result in numpy_jail.execute(jobs)} == {"failed"}


USES = Path(__file__).with_name("plain_data_uses.txt").read_text()


def test_a_check_uses_what_it_gets_as_in_a_process_of_ones_own(numpy_jail):
    evaluator = IMPORTS + NUMPY + "def f(expression):\n    return eval(expression)\n"
    (result,) = numpy_jail.execute([CheckJob(evaluator, USES, "f")])
    assert result.passed, result.verdict


def test_what_a_program_changes_in_its_arguments_is_changed_for_the_check(numpy_jail):
    change = """
def f(xs, counts, window, data, array):
    xs.append(1); counts.update("ab"); window.popleft(); data[0] = 65; array *= 2
"""
    check = """
from collections import Counter, deque
import numpy as np
def check(f):
    things = [], Counter("a"), deque([1, 2]), bytearray(b"xy"), np.array([1, 2])
    assert f(*things) is None
    assert things[:4] == ([1], Counter("aab"), deque([2]), bytearray(b"Ay")) and things[4].tolist() == [2, 4]
"""
    (result,) = numpy_jail.execute([CheckJob(change, check, "f")])
    assert result.passed, result.verdict


LONG = ["'x' * (70 << 20)", "[[i] for i in range(400_000)]", "numpy.arange(3_000_000)", "1 << (1 << 28)"]


@pytest.mark.parametrize("expression", LONG)
def test_a_long_value_reaches_a_check_and_has_a_text(numpy_jail, expression):
    """Each takes more than what was once the longest message, or more parts."""
    check = f"import numpy\ndef check(f):\n    assert numpy.all(f(1) == {expression})"
    job = CheckJob(program(expression), check, "f", Limits(memory_mb=1024, call_seconds=20.0, program_seconds=60.0))
    (result,) = numpy_jail.execute([job])
    assert result.passed, result.verdict
    (execution,) = numpy_jail.execute([Job(program(expression), ("f(1)",), job.limits)])
    assert (execution.outcomes[0].value or "").startswith("sha256:"), execution.outcomes[0]


@pytest.mark.parametrize("expression", ["list(range(3_000_000))", "'x' * (150 << 20)", "set(range(1_000_000))"])
def test_the_text_of_a_value_takes_little_memory_beside_it(numpy_jail, expression):
    limits = Limits(memory_mb=320, call_seconds=20.0)
    (execution,) = numpy_jail.execute([Job(program(expression), ("f(1)",), limits)])
    assert (execution.outcomes[0].value or "").startswith("sha256:"), execution.outcomes[0]


def test_a_value_with_more_paths_than_parts_runs_out_of_time(numpy_jail):
    doubling = "def f(x):\n    for _ in range(60): x = [x, x]\n    return x"
    (execution,) = numpy_jail.execute([Job(doubling, ("f(1)",), Limits(call_seconds=0.2))])
    assert execution.outcomes[0].status.value == "timed out"


@pytest.mark.parametrize("in_process", [False, True], ids=["isolated", "in_process"])
def test_no_array_of_what_equals_anything_passes_a_check(numpy_jail, in_process):
    hostile = "import numpy\nclass E:\n    def __eq__(self, o): return True\ndef f(x): return numpy.array([E(), E()])"
    (result,) = numpy_jail.execute([CheckJob(hostile, "assert (f(1) == [1, 2]).all()", "f", in_process=in_process)])
    assert not result.passed
