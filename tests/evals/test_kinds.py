"""Classes, and programs that read standard input, are evaluated as functions are."""

import json
from dataclasses import replace
from datetime import date

import pytest
from scripted import silent

from codea1_jax.cli._evaluation import load_data
from codea1_jax.evals.code import evaluate_code
from codea1_jax.evals.collaboration import evaluate_collaboration
from codea1_jax.evals.heldout import evaluate_programs as heldout_code
from codea1_jax.evals.heldout import evaluate_tests as heldout_tests
from codea1_jax.evals.heldout import prepare
from codea1_jax.evals.journal import Journal
from codea1_jax.evals.samples import RecordedPlayer
from codea1_jax.game.players import TextPlayer
from data_pipeline import Problem
from data_pipeline.benchmark import make_benchmark
from data_pipeline.golden import stream_line
from sandbox import Task
from sandbox.streams import spelled

TWICE = "x = int(input())\nif x > 9:\n    print(9)\nelse:\n    print(2 * x)\n"
STREAM = Problem(
    "twice",
    "Read x. Print twice x, but 9 for all x above 9.",
    TWICE,
    "",
    (stream_line("3", "6"), stream_line("10", "9")),
    probe_calls=("3\n", "9\n", "10\n"),
    mutants=(TWICE.replace(">", ">="), TWICE.replace("2 *", "3 *")),
    task=Task.STREAM,
    source="mine",
)
ADDER = """
class Sum:
    def __init__(self):
        self.s = 0

    def add(self, x):
        self.s += x
        return self.s
"""
CLASS = Problem(
    "sum",
    "A class Sum whose add(x) returns the sum so far.",
    ADDER,
    "Sum",
    ("assert run_calls((), [('add', (1,)), ('add', (2,))]) == 3", "assert run_calls((), [('add', (5,))]) == 5"),
    mutants=(ADDER.replace("+=", "="),),
    task=Task.CLASS,
    source="mine",
)
PROBLEMS = [STREAM, CLASS]
PROGRAMS = {"twice": (TWICE, "print(6)"), "sum": (ADDER, ADDER.replace("+=", "="))}
SUITES = {
    "twice": "\n".join([spelled("9\n", "18"), spelled("1\n", "3")]),  # the second states a wrong answer
    "sum": "```python\ns = Sum()\ns.add(4)\nassert s.add(1) == 5\nassert Sum().add(0) == 1\n```",
}


def respond(requests):
    yield from ((i, (SUITES[request.problem.id],) * request.samples) for i, request in enumerate(requests))


def test_programs_pass_or_fail_the_problems_own_tests(pool, tmp_path):
    benchmark = make_benchmark(PROBLEMS, pool)
    assert benchmark.problems == tuple(PROBLEMS)
    results = evaluate_code(benchmark, RecordedPlayer(PROGRAMS), 2, pool, Journal(tmp_path, {}), silent)
    assert results["benchmarks"]["mine"]["avg_at_n"]["value"] == 50


@pytest.mark.parametrize("solution", [TWICE, ""])
def test_what_nothing_checks_is_passed_by_nobody(solution, pool):
    benchmark = make_benchmark([replace(STREAM, solution=solution, golden_tests=())], pool)
    assert benchmark.problems == ()
    assert [refusal.reason for refusal in benchmark.unsound] == ["it has neither a check nor tests"]


def test_the_program_that_passes_most_generated_tests_is_chosen(pool, tmp_path):
    benchmark = make_benchmark(PROBLEMS, pool)
    wrong_first = RecordedPlayer({name: programs[::-1] for name, programs in PROGRAMS.items()})
    results = evaluate_collaboration(
        benchmark, wrong_first, TextPlayer(respond), 2, pool, Journal(tmp_path, {}), silent
    )
    figures = results["benchmarks"]["mine"]
    found = [figures[name]["value"] for name in ("best_of_1", "best_of_2")]
    assert found == [0, 100]


def test_held_out_figures_are_those_by_hand(pool):
    heldout = prepare(PROBLEMS, pool)
    assert heldout.answers[STREAM] == {"3\n": "[6]", "9\n": "[18]", "10\n": "[9]"}
    code = heldout_code(RecordedPlayer(PROGRAMS), pool, heldout, 2, ())
    assert code["eval/avg_at_n"] == 50
    tests, _ = heldout_tests(TextPlayer(respond), pool, heldout, 1, 2, ())
    # One of each suite's two tests is wrong, and the right one kills the mutant that is shown.
    assert (tests["eval/test_validity"], tests["eval/kill_rate"]) == (50, 100)
    # In five rounds the right test comes once and the wrong one once: 9 tells `>=` apart, and 3 * x as well.
    assert tests["eval/pass_at_5"] == 20
    assert tests["eval/mut_at_5"] == 100


DEPTH = """
def depth(root: TreeNode) -> int:
    if not root:
        return 0
    return 1 + max(depth(root.left), depth(root.right))
"""
TREE = Problem(
    "depth",
    "Write depth(root), of a TreeNode: how many nodes are on the longest path down from the root.",
    DEPTH,
    "depth",
    ("assert depth([]) == 0", "assert depth([1, None, 2]) == 2"),
    mutants=(DEPTH.replace("root.right", "root.left"),),
    source="mine",
)


def test_trees_are_evaluated_as_lists(pool, tmp_path):
    benchmark = make_benchmark([TREE], pool)
    programs = {"depth": (DEPTH, TREE.mutants[0])}
    results = evaluate_code(benchmark, RecordedPlayer(programs), 2, pool, Journal(tmp_path / "code", {}), silent)
    assert results["benchmarks"]["mine"]["avg_at_n"]["value"] == 50
    assert heldout_code(RecordedPlayer(programs), pool, prepare([TREE], pool), 2, ())["eval/avg_at_n"] == 50
    written = RecordedPlayer(tests_of={"depth": TREE.golden_tests})
    tests, _ = heldout_tests(written, pool, prepare([TREE], pool), 1, 2, ())
    assert (tests["eval/pass_at_5"], tests["eval/mut_at_5"]) == (40, 100)


METHOD = "class Solution:\n    def addAll(self, xs: List[int], y: int) -> List[int]:"
ADD_ALL = f"{METHOD}\n        return [x + y for x in xs]"  # which imports no List: the scorer does


def live(name, tests, **fields):
    """A row of LiveCodeBench's."""
    whole = [test | {"testtype": "functional" if "metadata" in fields else "stdin"} for test in tests]
    return {
        **{"question_id": name, "question_content": "?", "contest_date": "2024-05-01T00:00:00", "difficulty": "easy"},
        **{"public_test_cases": json.dumps(whole), "private_test_cases": "[]", "starter_code": "", "metadata": "{}"},
    } | fields


def test_live_code_bench_is_scored_without_solutions_by_days_and_difficulties(pool, tmp_path):
    method = {"starter_code": METHOD, "metadata": '{"func_name": "addAll"}'}
    long = {"input": json.dumps(list(range(5_000))) + "\n1", "output": json.dumps(list(range(1, 5_001)))}
    rows = [
        live("twice", [{"input": "3\n", "output": "6\n"}, {"input": "10", "output": "9"}]),
        live("all", [{"input": "[1, 2]\n3", "output": "[4, 5]"}, long], **method),
        live("late", [{"input": "1", "output": "1"}], contest_date="2025-01-01T00:00:00"),
        live("hard", [{"input": "1", "output": "1"}], difficulty="hard"),
    ]
    path = tmp_path / "test6.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = load_data(str(path), ["easy"], date(2024, 5, 1), date(2024, 12, 31)).problems
    assert [problem.id for problem in problems] == ["LCB/twice", "LCB/all"]
    programs = {"LCB/twice": (TWICE, "print(6)"), "LCB/all": (ADD_ALL, ADD_ALL.replace("x + y", "x"))}
    benchmark = make_benchmark(problems, pool)
    assert benchmark.problems == problems
    results = evaluate_code(benchmark, RecordedPlayer(programs), 2, pool, Journal(tmp_path / "out", {}), silent)
    assert results["benchmarks"]["livecodebench"]["avg_at_n"]["value"] == 50
