"""A question's tolerance, from a suite's validity to the mistake book and the golden reward."""

from dataclasses import replace

from judged_group import played

from codea1_jax.game.judging import submit_calls
from codea1_jax.game.scoring import verdicts_on
from codea1_jax.training.state import State, pack_state, unpack_state
from data_pipeline import Problem
from data_pipeline.problem_files import FORMAT
from data_pipeline.verdicts import golden_tests
from sandbox import SandboxPool, Tolerance

# In loops, for `sum` rounds floats in one way before Python 3.12, and in another from then on.
LOOP = "def f(xs):\n    total = 0.0\n    for x in xs:\n        total += {}\n    return total{}"
MEAN = LOOP.format("x", " / len(xs)")
NEAR = LOOP.format("x / len(xs)", "")  # the same except for rounding
ROUGH = LOOP.format("x", " / len(xs) + 1e-10")
FAR = LOOP.format("x", " / len(xs) + 0.01")
NAN = "def f(xs):\n    return float('nan')"
SUITE = "```python\nassert f([0.1, 0.2, 0.3]) == 0.2\nassert f([1, 2, 2]) == 1.67\n```"
PROBLEM = Problem("mean", "The mean.", MEAN, "f", ())


def rewards(pool: SandboxPool, problem: Problem) -> list[float]:
    return [program.reward for program in played(pool, [MEAN, NEAR, ROUGH, FAR, NAN], [[SUITE]] * 5, problem).programs]


def test_a_questions_tolerance_decides_which_answers_are_right_and_which_programs_pass(pool):
    assert rewards(pool, PROBLEM) == [1, 1, 0, 0, 0]  # neither of NEAR's sums rounds as the reference does
    assert rewards(pool, replace(PROBLEM, atol=1e-30)) == [1, 0, 0, 0, 0]
    close = replace(PROBLEM, atol=1e-9)
    assert rewards(pool, close) == [1, 1, 1, 0, 0]
    suites = [played(pool, [FAR], [[SUITE]], problem).programs[0].suites[0] for problem in (PROBLEM, close)]
    wide = played(pool, [FAR], [[SUITE]], replace(PROBLEM, atol=0.005)).programs[0].suites[0]
    # The reference gives 0.20000000000000004 and 1.6666666666666667.
    assert [suite.validated.invalid for suite in (*suites, wide)] == [1, 1, 0]


def test_the_book_keeps_the_tolerance_through_a_checkpoint(pool):
    question = played(pool, [FAR], [[SUITE]], replace(PROBLEM, atol=1e-9, rtol=1e-6))
    assert {test.tolerance for test in question.page_after} == {Tolerance(1e-9, 1e-6)}
    state = State(3, {}, None, {"mean": question.page_after}, data=None)
    _, document = pack_state(state)
    again = unpack_state({}, document)
    assert again.book == state.book
    assert {test.tolerance for test in again.book["mean"]} == {Tolerance(1e-9, 1e-6)}


ROW = {
    "id": "mean",
    "question": "The mean.",
    "solution": MEAN,
    "entry_point": "f",
    "tests": [
        "assert abs(f([0.1, 0.2, 0.3]) - 0.2) < 1e-9",
        {"test": "assert f([1, 2, 2]) == 1.667", "rtol": 1e-3},
        "assert f([2, 4]) == 3",
    ],
}


def test_golden_tests_are_judged_by_their_own_tolerance_and_shown_without_it(pool):
    (problem,) = FORMAT.read([ROW]).problems
    tests = golden_tests(pool, problem)
    passed = {}
    for name, program in {"mean": MEAN, "near": NEAR, "far": FAR, "nan": NAN}.items():
        outcomes = submit_calls(pool, problem, program, [test.call for test in tests]).result()
        passed[name] = [verdict.passed for verdict in verdicts_on(outcomes, tests)]
    assert passed["mean"] == passed["near"] == [True, True, True]
    assert passed["far"] == passed["nan"] == [False, False, False]
