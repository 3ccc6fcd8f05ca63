"""Held-out evaluation of scripted models by the real judge; all figures are computed by hand."""

import pytest
from scripted import requests_of, scripted_game

from codea1_jax.evals.heldout import evaluate_programs, evaluate_tests, prepare
from data_pipeline import Problem

PROBES = tuple(f"f({x})" for x in range(-3, 4))
STEP = Problem(
    id="step",
    question="Write f(x): return 1 if x is more than 0, otherwise 0.",
    solution="def f(x): return 1 if x > 0 else 0",
    entry_point="f",
    golden_tests=("assert f(-1) == 0", "assert f(2) == 1"),
    probe_calls=PROBES,
    mutants=("def f(x): return 1 if x >= 0 else 0", "def f(x): return 1"),
)
ROOT = Problem(
    id="root",
    question="Write f(x): return the square root of x, rounded down.",
    solution="def f(x): return int(x ** 0.5)",
    entry_point="f",
    golden_tests=(),
    probe_calls=PROBES,  # negative ones raise under the reference (int of a complex) and do not count
    mutants=("def f(x): return x", "def f(x): return x // 2"),
)
NO_MUTANTS = Problem(
    id="double",
    question="Write f(x): return twice x.",
    solution="def f(x): return 2 * x",
    entry_point="f",
    golden_tests=("assert f(1) == 2", "assert f(2) == 4"),
)
PROBLEMS = (STEP, ROOT, NO_MUTANTS)


def test_a_program_is_correct_if_it_agrees_on_every_call_that_the_reference_answers(pool):
    programs = {
        STEP.question: [
            STEP.solution,
            STEP.mutants[0],  # wrong at 0 alone
            "def f(x): return int(x > 0)",
            "def f(x): return x > 0",  # False == 0, True == 1
        ],
        ROOT.question: [
            "def f(x): return max(n for n in range(9) if n * n <= x)",
            "def f(x): return x",
            "no program",
            "def f(x): return [0, 1, 1, 1][x]",
        ],
        NO_MUTANTS.question: ["def f(x): return x", "def f(x): return 3 * x", "", "def f(x): return 2 ** x"],
    }
    heldout = prepare(PROBLEMS, pool)
    assert [len(answers) for answers in heldout.answers.values()] == [7, 4, 2]
    figures = evaluate_programs(scripted_game(pool, programs, {}).code, pool, heldout, 4, stream=(0,))
    assert set(without_bounds(figures)) == {"eval/avg_at_n", "eval/pass_at_1", "eval/pass_at_2", "eval/pass_at_4"}
    # correct of 4: 3, 2, 1 (2 ** 1 and 2 ** 2 are right, and the golden tests are all there is)
    bounds = figures["eval/avg_at_n_low"], figures["eval/avg_at_n_high"]
    assert bounds == pytest.approx((25, 75))  # three of the worst
    assert without_bounds(figures) == pytest.approx(
        {
            "eval/avg_at_n": 100 * 6 / 12,
            "eval/pass_at_1": 100 * 6 / 12,
            "eval/pass_at_2": 100 * (1 + (1 - 1 / 6) + (1 - 3 / 6)) / 3,  # of 6 pairs 0, 1 and 3 are all wrong
            "eval/pass_at_4": 100,
        }
    )


def without_bounds(figures: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if not name.endswith(("_low", "_high"))}


STEP_HUNT = (
    "assert f(0) == 0\nassert f(1) == 1",  # 2 valid of the 3 asked for; the mutant is wrong at 0: killed
    "assert f(1) == 1\nassert f(1) == 1\nassert f(0) == 1",  # a repeat and a wrong answer: 1 valid, no kill
)
ROOT_HUNT = (
    "assert f(0) == 0\nassert f(1) == 1\nassert f(-1) == 0",  # raises at -1: 2 valid; 1 // 2 is not 1: killed
    "I cannot think of a test.",  # 0 valid, no kill
)
STEP_ROUNDS = (  # right: 2, and f(0) kills both mutants
    "assert f(0) == 0",
    "assert f(0) == 0\nassert f(5) == 1",  # the first test whose call is new is f(5)
    "assert f(5) == 1",  # nothing new
    "assert f(7) == 0",  # wrong
    "nonsense",
)
ROOT_ROUNDS = (  # right: 2, which kill x // 2 but not x
    "assert f(0) == 0",
    "assert f(1) == 1",
    "assert f(-1) == 0",  # raises
    "assert f(0) == 1\nassert f(9) == 4",  # f(9) is new and wrong
    "",
)
DOUBLE_ROUNDS = (  # right: 1; the first two are also its hunt: 1 valid of 3 each
    "assert f(1) == 2",
    "assert f(1) == 2",
    "assert f(2) == 5",
    "",
    "assert f(0) == f(0)",  # outside the language
)


def test_validity_kill_rate_and_the_five_rounds(pool):
    suites = {
        # The problem at place i is hunted in its mutant i modulo their number.
        (STEP.question, STEP.mutants[0]): STEP_HUNT,
        (ROOT.question, ROOT.mutants[1]): ROOT_HUNT,
        (STEP.question, STEP.solution): STEP_ROUNDS,
        (ROOT.question, ROOT.solution): ROOT_ROUNDS,
        (NO_MUTANTS.question, NO_MUTANTS.solution): DOUBLE_ROUNDS,  # without mutants it is shown whole
    }
    game, heldout = scripted_game(pool, {}, suites), prepare(PROBLEMS, pool)
    figures, judged = evaluate_tests(game.test, pool, heldout, suites=2, suite_size=3, stream=(0,))
    wrong = [line for known in judged for line in known.lines() if not line["right"]]
    assert [(line["stated"], line["returned"]) for line in wrong[:2]] == [("1", "0"), ("0", None)]  # and why: it raises
    assert "Error" in wrong[1]["detail"]
    assert without_bounds(figures) == pytest.approx(
        {
            "eval/test_validity": 100 * (2 / 3 + 1 / 3 + 2 / 3 + 0 + 1 / 3 + 1 / 3) / 6,
            "eval/kill_rate": 100 * 2 / 4,
            "eval/pass_at_5": 100 * (2 + 2 + 1) / 15,
            "eval/mut_at_5": 100 * (2 / 2 + 1 / 2) / 2,
            "eval/mul": 25,  # 33.3 · 75 / 100
            "eval/distinct_tests": 100 * (2 / 5 + 3 / 3 + 1 / 2) / 3,
            "eval/trivial_tests": 100 * 2 / 4,  # f(5) of the one, f(0) of the other
        }
    )


def test_without_any_mutant_there_is_no_kill_rate_and_without_a_test_no_share_of_tests(pool):
    game = scripted_game(pool, {}, {(NO_MUTANTS.question, NO_MUTANTS.solution): DOUBLE_ROUNDS})
    heldout = prepare([NO_MUTANTS], pool)
    figures, _ = evaluate_tests(game.test, pool, heldout, suites=2, suite_size=3, stream=(0,))
    expected = {"eval/test_validity": 100 / 3, "eval/distinct_tests": 50, "eval/pass_at_5": 20}
    bounds = {f"{name}_{end}": value for name, value in expected.items() for end in ("low", "high")}
    assert figures == pytest.approx(expected | bounds)  # of one question, every resample is the same
    game = scripted_game(pool, {}, {(STEP.question, p): [""] * 5 for p in (STEP.solution, STEP.mutants[0])})
    figures, _ = evaluate_tests(game.test, pool, prepare([STEP], pool), suites=2, suite_size=3, stream=(0,))
    names = ("test_validity", "kill_rate", "pass_at_5", "mut_at_5", "mul")
    assert without_bounds(figures) == {f"eval/{name}": 0 for name in names}


WRONG_AT = ("(3, 4)", "(3, 4, 5)", "(50,)", "(7,)", "(-1,)")  # 2, 3, 0, 1 and 0 of the 20 calls that count
ITSELF = Problem(
    id="itself",
    question="Write f(x): return x, which is not negative.",
    solution="def f(x): return x if x >= 0 else [][x]",
    entry_point="f",
    golden_tests=(),
    probe_calls=tuple(f"f({x})" for x in range(-1, 20)),
    mutants=tuple(f"def f(x): return x if x >= 0 and x not in {places} else [][x + 1:]" for places in WRONG_AT),
)
ITSELF_ROUNDS = ("assert f(3) == 3", "assert f(50) == 50", "assert f(7) == 8", "", "")


def test_hard_mutants_are_those_that_few_scored_calls_expose(pool):
    heldout = prepare((STEP, ITSELF), pool)
    assert heldout.hard == {STEP: (), ITSELF: (0, 3)}  # the mutant of STEP that is wrong at 0 is so at 1 of 7 calls
    suites = {
        (STEP.question, STEP.mutants[0]): STEP_HUNT,
        (STEP.question, STEP.solution): STEP_ROUNDS,
        (ITSELF.question, ITSELF.mutants[1]): ITSELF_ROUNDS,
        (ITSELF.question, ITSELF.solution): ITSELF_ROUNDS,
    }
    player = scripted_game(pool, {}, suites).test
    figures, _ = evaluate_tests(player, pool, heldout, suites=2, suite_size=3, stream=(0,))
    assert figures["eval/mut_at_5"] == pytest.approx(100 * (2 / 2 + 3 / 5) / 2)
    hard = [figures[f"eval/hard_mut_at_5{end}"] for end in ("", "_low", "_high")]
    assert hard == [50, 50, 50]  # f(3) kills one of the two, and the other question has none


def test_the_samples_of_an_evaluation_are_streams_of_their_own(pool):
    suites = {(NO_MUTANTS.question, NO_MUTANTS.solution): DOUBLE_ROUNDS}
    game = scripted_game(pool, {NO_MUTANTS.question: [NO_MUTANTS.solution]}, suites)
    heldout = prepare([NO_MUTANTS], pool)
    evaluate_programs(game.code, pool, heldout, 1, stream=(9, 0))
    evaluate_tests(game.test, pool, heldout, suites=2, suite_size=3, stream=(9, 1))
    streams = [request.stream for request in (*requests_of(game.code), *requests_of(game.test))]
    assert len(set(streams)) == len(streams) == 3
