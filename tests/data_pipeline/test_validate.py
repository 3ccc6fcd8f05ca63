"""Solutions are run against their own golden tests in the sandbox."""

from dataclasses import replace
from pathlib import Path

import pytest

from data_pipeline import Loaded, Problem, Refusal, kodcode, micro, validate
from sandbox import SandboxPool

KODCODE_SAMPLE = Path(__file__).parents[2] / "../shared/data/kodcode_sample.json"
GOOD = Problem("good", "?", "def f(x):\n    return [x]", "f", ("assert f(2) == [2]", "assert f(3) == [1 + 2]"))


@pytest.fixture(scope="module")
def pool():
    with SandboxPool(workers=1, backend="process") as pool:
        yield pool


def test_good_problems_stay_and_bad_ones_are_refused_by_reason(pool):
    before = Refusal("row 1", "not JSON")
    loaded = Loaded(
        (
            GOOD,
            replace(GOOD, id="wrong", golden_tests=(*GOOD.golden_tests, "assert f(1) == [2]")),
            replace(GOOD, id="wrong expression", golden_tests=("assert f(1) == [1 + 1]",)),
            replace(GOOD, id="raises", solution="def f(x):\n    return [x][x]"),
            replace(GOOD, id="broken", solution="def f(x):\n    return [x]\nimport nothing_of_this_name"),
            replace(GOOD, id="untested", golden_tests=()),
            replace(GOOD, id="nan", solution="def f(x):\n    return float('nan')"),
        ),
        (before,),
    )
    result = validate(loaded, pool)
    assert [problem.id for problem in result.problems] == ["good", "untested"]
    assert result.refused[0] == before
    reasons = {refusal.id: refusal.reason for refusal in result.refused[1:]}
    assert reasons["wrong"] == "the solution fails 1 of its 3 tests: f(1) gave [1], not [2]"
    assert reasons["wrong expression"] == "the solution fails 1 of its 1 tests: f(1) gave [1], not [1 + 1]"
    assert reasons["raises"].startswith("the solution fails 2 of its 2 tests: f(2) raised IndexError")
    assert reasons["broken"].startswith("the solution does not execute: raised ModuleNotFoundError")
    assert "f(2) gave nan" in reasons["nan"]


def test_every_micro_solution_passes_its_golden_tests(pool):
    problems = micro.problems("train", 50, seed=1)
    assert validate(Loaded(problems), pool).problems == problems


@pytest.mark.shared_data
def test_every_kodcode_sample_with_golden_tests_passes_them(pool):
    loaded = kodcode.read(KODCODE_SAMPLE)
    assert validate(loaded, pool) == loaded
