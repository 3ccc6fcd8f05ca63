"""The five rounds of UnLeakedTestBench, played by a scripted model; all figures are computed by hand."""

import re
from dataclasses import replace

import pytest
from scripted import silent

from codea1_jax.evals.journal import Journal
from codea1_jax.evals.mutants import Mutant
from codea1_jax.evals.rounds import FunctionResult, evaluate_tests, metrics_of, score
from codea1_jax.evals.samples import RecordedPlayer
from codea1_jax.game.players import SuiteRequest, TextPlayer
from codea1_jax.game.suites import extract_suite
from data_pipeline import Problem
from data_pipeline.reading import read
from sandbox import Job, Limits, SandboxPool

STEP = Problem(
    "ULT/1", "One above 0.", "def f(x):\n    if x > 0:\n        return 1\n    return 0", "f", (), source="ult"
)
ROUNDS = (
    "```python\nassert f(0) == 0\nassert f(9) == 1\n```",
    "assert f(0) == 0\nassert f(2) == 1",  # the first test that is new is f(2)
    "assert f(2) == 1",  # nothing new
    "assert f(3) == 0",  # wrong
    "No.",
)
WRITTEN = ["assert f(0) == 0", "assert f(2) == 1", "", "assert f(3) == 0", ""]


class Model:
    """Answers by the round; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[SuiteRequest] = []
        self.player = TextPlayer(self._respond)

    def _respond(self, requests):
        self.asked.extend(requests)
        answers = [(i, (ROUNDS[request.number],) * request.samples) for i, request in enumerate(requests)]
        yield from reversed(answers)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # mutants are kept below
    return tmp_path


def journal(folder, name="out"):
    return Journal(folder / name, {"command": "eval tests"})


def test_each_round_asks_for_a_test_that_differs_from_those_before(pool, folder):
    model, again = Model(), replace(STEP, id="ULT/2")
    evaluate_tests([STEP, again], model.player, pool, journal(folder), silent)
    known = [ask.known for ask in model.asked if ask.problem == STEP]
    assert known == [(), (WRITTEN[0],), (WRITTEN[0], WRITTEN[1]), (WRITTEN[0], WRITTEN[1]), (*WRITTEN[:2], WRITTEN[3])]
    assert all(ask.program == STEP.solution for ask in model.asked)
    assert len(model.asked) == 10
    (line, _) = journal(folder).lines("results.jsonl")
    assert line["tests"] == WRITTEN
    assert line["outcomes"] == ["correct", "correct", "none", "wrong", "none"]


def test_correct_tests_kill_mutants_and_all_tests_cover(pool):
    programs = [
        "def f(x):\n    return x > 0",
        "def f(x):\n    return int(x >= 0)",
        "def f(x):\n    return 5 if x == 3 else int(x > 0)",
    ]
    mutants = [Mutant("op", i, program) for i, program in enumerate(programs)]
    tests = [next(iter(extract_suite(line, "f").tests), None) for line in WRITTEN]
    (result,) = score({STEP: tests}, {STEP: mutants}, pool)
    assert (result.mutants, result.killed) == (3, 1)  # True == 1; only a wrong test looks at 3
    assert (result.lines, result.branches) == (1.0, 1.0)
    assert result.right == 2 / 5
    (idle,) = score({STEP: [None] * 5}, {STEP: mutants}, pool)
    assert (idle.killed, idle.lines, idle.branches) == (0, 1 / 4, 0.0)


def test_figures_are_means_over_functions():
    def result(name, right, mutants, killed):
        outcomes = ("correct",) * right + ("wrong",) * (5 - right)
        return FunctionResult(name, ("t",) * 5, outcomes, mutants, killed, lines=0.5, branches=0.25)

    found = metrics_of([result("a", 5, 10, 5), result("b", 1, 4, 4), result("c", 3, 0, 0)])
    values = {name: estimate.value for name, estimate in found.items()}
    assert values == pytest.approx(
        {
            "pass_at_5": 60,
            "mut_at_5": 75,
            "mul": 60 * 75 / 100,
            "mut_at_5_all": 75,
            "line_coverage": 50,
            "branch_coverage": 25,
        }
    )


def test_kill_rates_are_over_functions_with_a_correct_test_and_over_all():
    def result(name, right, killed):
        outcomes = ("correct",) * right + ("wrong",) * (5 - right)
        return FunctionResult(name, ("t",) * 5, outcomes, 10, killed)

    found = metrics_of([result("a", 5, 8), result("b", 1, 2), result("c", 0, 0)], unjudged=1)
    values = {name: estimate.value for name, estimate in found.items()}
    assert values == pytest.approx(
        {"pass_at_5": 30, "mut_at_5": 50, "mul": 15, "mut_at_5_all": 25, "pass_at_5_sound": 40}
    )
    assert metrics_of([result("c", 0, 0)])["mut_at_5"].value == 0


def test_a_function_runs_below_its_header_and_only_the_function_is_covered(pool):
    headed = replace(STEP, preamble="import math\nif math.pi > 4:\n    math = 0\n")
    headed = replace(headed, solution="def f(x):\n    return math.floor(x)")
    mutants = [Mutant("op", 0, "def f(x):\n    return math.ceil(x)")]
    tests = [next(iter(extract_suite("assert f(1.5) == 1", "f").tests))]
    (result,) = score({headed: tests}, {headed: mutants}, pool)
    assert (result.outcomes, result.killed, result.lines) == (("correct",), 1, 1.0)


def test_functions_run_by_the_header_alone(rows):
    """Of the real ones 15 miss a name without it, and two miss one that the benchmark's own header lacks as well."""
    functions = read(rows.unleaked).problems
    suites = {f: extract_suite("\n".join(f.golden_tests), f.entry_point).tests for f in functions}

    def missing(*, headed: bool) -> dict[str, str]:
        """The names that functions miss, by their ids."""
        jobs = [
            Job(
                f.preamble * headed + f.solution,
                tuple(test.call for test in suites[f]),
                Limits(memory_mb=1024),
                f.entry_point,
            )
            for f in functions
        ]
        details = {f.id: [o.detail for o in e.outcomes] for f, e in zip(functions, pool.execute(jobs), strict=True)}
        names = {key: re.findall(r"NameError: name '(\w+)'", " ".join(lines)) for key, lines in details.items()}
        return {key: each[0] for key, each in names.items() if each}

    ours = (10, {"ULT/7": "logging"}, 3)
    real = (120, {"ULT/785": "logging", "ULT/3934": "sys"}, 15)
    with SandboxPool(workers=2, preload=("numpy",)) as pool:
        assert (len(functions), missing(headed=True), len(missing(headed=False))) in (ours, real)


def test_an_interrupted_evaluation_asks_only_for_what_is_left(pool, folder):
    whole = evaluate_tests([STEP], Model().player, pool, journal(folder, "whole"), silent)
    begun = journal(folder)
    begun.add("tests.jsonl", journal(folder, "whole").lines("tests.jsonl")[:3])
    model = Model()
    assert evaluate_tests([STEP], model.player, pool, begun, silent) == whole
    assert [ask.number for ask in model.asked] == [3, 4]


def test_a_function_that_does_not_execute_has_no_correct_test_and_is_named(pool, folder):
    broken = replace(STEP, id="ULT/2", solution="import nothing_of_this_name\ndef f(x):\n    return x")
    own = RecordedPlayer(tests_of={STEP.id: ("assert f(0) == 0", "def test():\n    x = 1\n    assert f(x) == 1")})
    results = evaluate_tests([STEP, broken], own, pool, journal(folder), silent)
    found = results["benchmarks"]["tests"]
    assert (found["problems"], found["sound"]) == (2, 1)
    assert (found["pass_at_5"]["value"], found["pass_at_5_sound"]["value"]) == (20, 40)
    assert "nothing_of_this_name" in results["unsound"]["ULT/2"]


def test_a_function_of_the_benchmark_counts_although_its_own_tests_are_wrong_and_another_does_not(pool, folder):
    wrong = replace(STEP, golden_tests=("assert f(1) == 0",))
    ours = replace(wrong, id="ours", source="problems")
    results = evaluate_tests([wrong, ours], RecordedPlayer(tests_of={}), pool, journal(folder), silent)
    assert results["benchmarks"]["tests"]["sound"] == 1
    assert results["unsound"] == {"ours": "the solution fails tests (1 of 1): f(1) gave 1, not 0"}
