"""Programs are scored by the benchmarks' own checks; what is scored, left out and resumed is told exactly."""

import json
from dataclasses import replace

import pytest
from scripted import silent

from codea1_jax.evals.code import evaluate_benchmark, evaluate_code, metrics_of
from codea1_jax.evals.journal import Journal
from codea1_jax.evals.samples import RecordedPlayer
from data_pipeline import Problem, bigcodebench
from data_pipeline.benchmark import make_benchmark

CHECK = "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate([5][0]) == 6"
GROW = Problem("HumanEval/900", "?", "def grow(x):\n    return x + 1", "grow", (), check=CHECK, source="humanevalplus")
MINE = Problem("mine", "?", "def f(x):\n    return x", "f", ("assert f(1) == 1",), source="problems")
UNSOUND = replace(GROW, id="HumanEval/901", solution="def grow(x):\n    return x")
MISSING = replace(GROW, id="HumanEval/902", solution=f"import nothing_of_this_name\n{GROW.solution}")
BIGCODE = bigcodebench.FORMAT.read(
    [
        {
            "task_id": "BigCodeBench/902",
            "complete_prompt": 'import random\n\ndef task_func(x):\n    """One more."""\n',
            "canonical_solution": "    return x + random.choice([1])\n",
            "code_prompt": "import random\ndef task_func(x):\n",
            "test": "import unittest\nclass TestCases(unittest.TestCase):\n    def test_one(self):\n"
            "        self.assertEqual(task_func(1), 2)\n",
            "entry_point": "task_func",
        }
    ]
).problems[0]
HOSTILE = {
    "empty": "",
    "no function": "pass",
    "syntax error": "def grow(x):\n    return (x + 1",
    "prints the end": "import os\ndef grow(x):\n    print('passed')\n    os._exit(0)",
    "exits while loading": "raise SystemExit(0)",
    "equals everything": "class All(int):\n    __eq__ = lambda a, b: True\ndef grow(x):\n    return All()",
    "endless": "def grow(x):\n    while True: pass",
    "no plain text": "\x00",
}


def journal(tmp_path, name="out"):
    return Journal(tmp_path / name, {"command": "eval code"})


def test_a_failure_is_written_down_with_the_input_the_expected_and_the_returned_value(pool, tmp_path):
    programs = [MINE.solution, "def f(x):\n    return x + 1", "def f(x):\n    return 1 / 0"]
    evaluate_code(make_benchmark([MINE], pool), RecordedPlayer({"mine": programs}), 3, pool, journal(tmp_path), silent)
    (line,) = map(json.loads, (tmp_path / "out" / "results.jsonl").read_text().splitlines())
    right, wrong, raised = line["failures"]
    assert right is None
    assert wrong == {"call": "f(1)", "expected": raised["expected"], "returned": wrong["returned"]}
    assert "2" in wrong["returned"]
    assert "2" not in wrong["expected"]
    assert raised["returned"] is None
    assert "ZeroDivisionError" in line["details"][2]


def test_figures_are_over_all_problems_and_those_that_cannot_be_judged_are_named(pool, tmp_path):
    benchmark = make_benchmark([GROW, UNSOUND, MISSING, MINE, BIGCODE], pool)
    assert [problem.id for problem in benchmark.problems] == [GROW.id, "mine", BIGCODE.id]
    own = RecordedPlayer({p.id: (p.solution,) for p in (GROW, UNSOUND, MINE, BIGCODE)})
    results = evaluate_code(benchmark, own, 1, pool, journal(tmp_path), silent)
    assert {source: found["avg_at_n"]["value"] for source, found in results["benchmarks"].items()} == {
        "humanevalplus": pytest.approx(100 / 3),
        "problems": 100,
        "bigcodebench": 100,
    }
    plus = results["benchmarks"]["humanevalplus"]
    assert (plus["problems"], plus["sound"], plus["avg_at_n_sound"]["value"]) == (3, 1, 100)
    assert "avg_at_n_sound" not in results["benchmarks"]["problems"]
    assert results["missing_dependencies"] == {
        "HumanEval/902": "needs nothing_of_this_name, which the judge's Python lacks"
    }
    assert results["missing_packages"] == {"nothing_of_this_name": 1}
    assert list(results["unsound"]) == ["HumanEval/901"]
    assert "its own solution fails its own check (failed" in results["unsound"]["HumanEval/901"]
    drawn, scored = (journal(tmp_path).lines(name) for name in ("samples.jsonl", "results.jsonl"))
    assert [line["task_id"] for line in scored] == [GROW.id, "mine", BIGCODE.id]
    assert [line["task_id"] for line in drawn] == [GROW.id, UNSOUND.id, "mine", BIGCODE.id]  # others score all of them


def test_empty_broken_and_hostile_samples_score_nothing(pool, tmp_path):
    benchmark = make_benchmark([GROW], pool)
    samples = RecordedPlayer({GROW.id: tuple(HOSTILE.values())})
    results = evaluate_code(benchmark, samples, len(HOSTILE), pool, journal(tmp_path), silent)
    found = results["benchmarks"]["humanevalplus"]
    assert (found["avg_at_n"]["value"], found["pass_at_1"]["value"], found["pass_at_8"]["value"]) == (0, 0, 0)
    (line,) = journal(tmp_path).lines("results.jsonl")
    assert dict(zip(HOSTILE, line["statuses"], strict=True))["endless"] == "timed out"


def test_the_originals_limits_are_the_clocks_and_let_a_slower_program_pass(pool, tmp_path):
    benchmark = make_benchmark([GROW, BIGCODE], pool)
    of = {limits: benchmark.within(limits).limits for limits in ("paper", "paper_last")}
    assert [(own.program_seconds, own.wall_factor) for own in of["paper"].values()] == [(10, 1), (240, 1)]
    assert [own.program_seconds for own in of["paper_last"].values()] == [20, 240]
    assert of["paper"][BIGCODE].memory_mb == 30 * 1024
    burns = "    end = time.process_time() + 1.3 * (x == 1)\n    while time.process_time() < end: pass\n"
    slow = RecordedPlayer({GROW.id: (f"import time\ndef grow(x):\n{burns}    return x + 1",)})
    passed = [
        evaluate_benchmark(slow, pool, judged, 1, ())["eval/humanevalplus/avg_at_n"]
        for judged in (make_benchmark([GROW], pool), make_benchmark([GROW], pool).within("paper_last"))
    ]
    assert passed == [0, 100]


def test_a_bigcodebench_sample_may_count_on_the_questions_imports(pool, tmp_path):
    benchmark = make_benchmark([BIGCODE], pool)
    programs = ("def task_func(x):\n    return x + random.choice([1])", "def task_func(x):\n    return random")
    results = evaluate_code(benchmark, RecordedPlayer({BIGCODE.id: programs}), 2, pool, journal(tmp_path), silent)
    assert results["benchmarks"]["bigcodebench"]["avg_at_n"]["value"] == 50


class Counting(RecordedPlayer):
    """A model that remembers for which problems it was asked, and is cut off after the first of them."""

    def programs(self, requests):
        asked.extend(request.problem.id for request in requests)
        for i, programs in super().programs(requests):
            yield i, programs
            if interrupted:
                raise KeyboardInterrupt


asked: list[str] = []
interrupted: list[bool] = []


def test_an_interrupted_evaluation_draws_and_checks_only_what_is_left(pool, tmp_path):
    problems = [*(replace(GROW, id=f"HumanEval/{k}") for k in range(3)), UNSOUND]
    benchmark = make_benchmark(problems, pool)
    programs = {p.id: (GROW.solution, f"def grow(x): return {k}") for k, p in enumerate(problems)}
    whole = evaluate_code(benchmark, RecordedPlayer(programs), 2, pool, journal(tmp_path, "whole"), silent)
    interrupted.append(True)
    with pytest.raises(KeyboardInterrupt):
        evaluate_code(benchmark, Counting(programs), 2, pool, journal(tmp_path), silent)
    interrupted.clear()
    with (tmp_path / "out" / "samples.jsonl").open("a") as file:  # as if a write had been cut between two lines
        file.write(json.dumps({"task_id": "HumanEval/1", "solution": GROW.solution}) + "\n")
    asked.clear()
    resumed = evaluate_code(benchmark, Counting(programs), 2, pool, journal(tmp_path), silent)
    assert asked == ["HumanEval/1", "HumanEval/2", UNSOUND.id]
    assert resumed == whole
    for name in ("samples.jsonl", "results.jsonl"):
        assert journal(tmp_path).lines(name) == journal(tmp_path, "whole").lines(name)
    asked.clear()
    assert evaluate_code(benchmark, Counting(programs), 2, pool, journal(tmp_path), silent) == whole
    assert asked == []


def test_figures_are_per_benchmark_and_pass_at_k_ends_at_the_fewest_samples():
    found = metrics_of([("x", 4, 2), ("x", 2, 1), ("y", 1, 0)], {"x": 2, "y": 1})
    assert found["x"]["avg_at_n"].value == 50
    assert found["x"]["pass_at_2"].value == pytest.approx(100 * ((1 - 1 / 6) + 1) / 2)
    assert "pass_at_4" not in found["x"]
    assert {name: value.value for name, value in found["y"].items()} == {"avg_at_n": 0, "pass_at_1": 0}
    unjudged = metrics_of([("x", 2, 2)], {"x": 4})["x"]  # which count as failed
    expected = {"avg_at_n": 25, "pass_at_1": 25, "pass_at_2": 25, "avg_at_n_sound": 100}
    assert {name: value.value for name, value in unjudged.items()} == expected
