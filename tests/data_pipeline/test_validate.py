"""Solutions are run against their own golden tests in the sandbox."""

import json
from dataclasses import replace

import pytest

from data_pipeline import Problem, micro
from data_pipeline.faults import find_faults
from data_pipeline.reading import read
from data_pipeline.validate import failures
from sandbox import Limits, SandboxPool

GOOD = Problem("good", "?", "def f(x):\n    return [x]", "f", ("assert f(2) == [2]", "assert f(3) == [1 + 2]"))


@pytest.fixture(scope="module")
def pool():
    with SandboxPool(workers=1, backend="process") as pool:
        yield pool


def test_a_solution_that_fails_is_named_with_the_reason(pool):
    problems = (
        GOOD,
        replace(GOOD, id="wrong", golden_tests=(*GOOD.golden_tests, "assert f(1) == [2]")),
        replace(GOOD, id="wrong expression", golden_tests=("assert f(1) == [1 + 1]",)),
        replace(GOOD, id="raises", solution="def f(x):\n    return [x][x]"),
        replace(GOOD, id="broken", solution="def f(x):\n    return [x]\nimport nothing_of_this_name"),
        replace(GOOD, id="untested", golden_tests=()),
        replace(GOOD, id="nodes", solution="def f(x):\n    return x.next", golden_tests=("assert f([1]) == [1]",)),
        replace(GOOD, id="nan", solution="def f(x):\n    return float('nan')"),
    )
    reasons = {p.id: reason for p, reason in zip(problems, failures(problems, pool), strict=True) if reason is not None}
    assert list(reasons) == ["wrong", "wrong expression", "raises", "broken", "nodes", "nan"]
    assert reasons["wrong"] == "the solution fails tests (1 of 3): f(1) gave [1], not [2]"
    assert reasons["wrong expression"] == "the solution fails tests (1 of 1): f(1) gave [1], not [1 + 1]"
    assert reasons["raises"].startswith("the solution fails tests (2 of 2): f(2) raised IndexError")
    assert reasons["broken"].startswith("the solution does not execute: raised ModuleNotFoundError")
    assert reasons["nodes"].endswith("; expected [1]; annotate the parameter that takes it as ListNode")
    assert "f(2) gave nan" in reasons["nan"]


def test_a_failure_of_a_class_and_of_a_program_is_told_in_the_words_of_its_tests(tmp_path, pool):
    counter = "class C:\n    n = 0\n    def up(self):\n        self.n += 1\n        return self.n"
    rows = [
        {"solution": counter, "entry_point": "C", "tests": ["c = C()\nc.up()\nassert c.up() == 3"]},
        {"solution": "print(input(), 7)", "tests": [{"input": "a b", "output": "a b\n8"}]},
        {"tests": [{"input": "a b", "output": "a b"}]},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"id": str(n), "question": "?"} | row) + "\n" for n, row in enumerate(rows)))
    reasons = [fault.reason for fault in find_faults(file, pool).faults]
    assert reasons[0].endswith(": made = C(); made.up(); made.up() gave 2, not 3")
    assert reasons[1].endswith(r": 'a b' gave 'a\nb\n7', not 'a b\n8'")
    assert reasons[2] == "no solution"


COUNTING = """
asked = []
def f(x):
    asked.append(x)
    return len(asked)
"""
UNSTABLE = """
def f(x):
    with open({file!r}, "a+") as file:
        file.write("x")
        file.seek(0)
        return len(file.read())
"""
SLOW = """
import time
def f(x):
    end = time.thread_time() + 0.45
    while time.thread_time() < end: pass
    return x
"""


def test_a_solution_that_keeps_state_runs_each_call_in_a_fresh_process(pool):
    problem = replace(GOOD, id="counts", solution=COUNTING, golden_tests=("assert f(5) == 1", "assert f(7) == 1"))
    assert failures([problem], pool) == [None]


def test_a_solution_that_answers_differently_when_asked_again_is_refused(pool, tmp_path):
    solution = UNSTABLE.format(file=str(tmp_path / "asked"))
    problem = replace(GOOD, id="unstable", solution=solution, golden_tests=("assert f(5) == 1",))
    assert failures([problem], pool) == [
        "the solution does not answer the same each time: f(5) gave 2 when asked again"
    ]


def test_a_solution_that_needs_more_than_half_the_time_of_a_call_is_refused():
    problem = replace(GOOD, id="slow", solution=SLOW, golden_tests=("assert f(5) == 5",))
    with SandboxPool(workers=1, backend="process", limits=Limits(call_seconds=0.5)) as tight:
        (reason,) = failures([problem], tight)
    assert "f(5) timed out (" in str(reason)  # CPU time; on a busy machine the clock may be first
    with SandboxPool(workers=1, backend="process", limits=Limits(call_seconds=2.0)) as wide:
        assert failures([problem], wide) == [None]


@pytest.mark.parametrize("form", [micro.FUNCTION, micro.STREAM])
def test_every_micro_solution_passes_its_golden_tests(form, pool):
    problems = micro.problems("train", 50, 1, form)
    assert failures(problems, pool) == [None] * 50
    assert None not in failures([replace(problems[0], golden_tests=problems[1].golden_tests)], pool)


def test_every_kodcode_row_with_golden_tests_passes_them(rows, pool):
    assert set(failures(read(rows.kodcode).problems, pool)) == {None}


@pytest.mark.parametrize(
    ("question", "tests", "words"),
    [
        ("Print any number above n.", [{"input": "5\n", "output": "6\n"}], "Print any number"),
        (
            "Answer YES or NO, each letter in any case.",
            [{"input": "5\n", "output": "YES\n"}],
            "Answer YES or NO, each letter in any case",
        ),
        (
            "Return the divisors of n in any order.",
            ["assert f(6) == [1, 2, 3, 6]"],
            "Return the divisors of n in any order",
        ),
        ("Return the divisors of n in any order.", ["assert sorted(f(6)) == [1, 2, 3, 6]"], None),
        ("In any case print n + 1.", [{"input": "5\n", "output": "6\n"}], None),
    ],
)
def test_a_question_that_allows_other_answers_is_named_where_tests_compare_by_equality(
    pool, tmp_path, question, tests, words
):
    called = {"solution": "def f(n): return [d for d in range(1, n + 1) if n % d == 0]", "entry_point": "f"}
    read = {"solution": "print('YES')" if "YES" in question else "print(int(input()) + 1)"}
    row = {"id": "q", "question": question, "tests": tests} | (called if isinstance(tests[0], str) else read)
    (tmp_path / "q.jsonl").write_text(json.dumps(row))
    reasons = [fault.reason for fault in find_faults(tmp_path / "q.jsonl", pool).faults]
    assert (words is None and reasons == []) or (words is not None and f"the question says {words!r}" in reasons[0])
