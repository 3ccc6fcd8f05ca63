"""`codea1 eval` from the command line: what is printed, kept, refused, and resumed."""

import json

import pytest

from codea1_jax.cli import main

ROWS = [
    {"id": "one", "question": "Add one.", "solution": "def f(x):\n    return x + 1", "entry_point": "f"}
    | {"tests": ["assert f(1) == 2", "assert f(5) == 6"]},
    {"id": "two", "question": "Add two.", "solution": "def f(x):\n    return x + 2", "entry_point": "f"}
    | {"tests": ["assert f(1) == 3"]},
    {"id": "bad", "question": "Add.", "solution": "def f(x):\n    return x", "entry_point": "f"}
    | {"tests": ["assert f(1) == 3"]},
]


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    samples = [("one", "def f(x): return x + 1"), ("one", "def f(x): return 2"), ("two", ""), ("two", "def f(")]
    lines = [json.dumps({"task_id": task, "solution": solution}) for task, solution in (*samples, ("gone", "x"))]
    (tmp_path / "samples.jsonl").write_text("\n".join(lines))
    tests = [("one", "assert f(2) == 3"), ("one", "assert f(2) == 2"), ("two", "assert f(0) == 2")]
    lines = [json.dumps({"task_id": task, "tests": [test]}) for task, test in tests]
    (tmp_path / "tests.jsonl").write_text("\n".join(lines))
    return tmp_path


def run(capsys, *arguments):
    assert main(["eval", *arguments, "--data", "data.jsonl", "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    return json.loads(printed)


def test_anybodys_samples_are_scored_and_results_say_what_they_are_of(data, capsys):
    results = run(capsys, "code", "--samples", "samples.jsonl", "--out", "out")
    found = results["benchmarks"]["problems"]
    assert (found["problems"], found["sound"]) == (3, 2)
    assert found["avg_at_n"]["value"] == pytest.approx(50 / 3)  # over all three: nobody solves what cannot be judged
    assert found["pass_at_2"]["value"] == pytest.approx(100 / 3)
    assert found["avg_at_n_sound"]["value"] == 25
    assert found["avg_at_n_sound"]["low"] <= 25 <= found["avg_at_n_sound"]["high"]
    assert (list(results["unsound"]), results["unknown_samples"]) == (["bad"], ["gone"])
    assert results["config"]["samples"] == "samples.jsonl"
    assert json.loads((data / "out" / "summary.json").read_text()) == results
    with (data / "samples.jsonl").open("a") as file:
        file.write("\n" + json.dumps({"task_id": "two", "solution": "1"}))
    assert main(["eval", "code", "--data", "data.jsonl", "--samples", "samples.jsonl", "--out", "out"]) == 2
    assert "--out: out holds an evaluation with samples_sha256=" in capsys.readouterr().err


def test_the_datas_own_solutions_score_everything_that_is_sound(data, capsys):
    assert main(["eval", "code", "--data", "data.jsonl", "--samples", "reference"]) == 0
    shown = capsys.readouterr()
    assert "100.00" in shown.out
    assert "cannot be judged: bad: its own solution fails its own check" in shown.err
    (folder,) = (data / "runs").iterdir()  # named by what is evaluated
    assert [json.loads(line)["task_id"] for line in (folder / "samples.jsonl").open()] == ["one", "two", "bad"]


def test_tests_collaboration_and_suites(data, capsys):
    results = run(capsys, "tests", "--samples", "tests.jsonl", "--out", "tests")
    (data / "tests" / "responses.jsonl").write_text("{}\n")  # as one that was interrupted leaves it
    assert run(capsys, "tests", "--samples", "tests.jsonl", "--out", "tests")["benchmarks"] == results["benchmarks"]
    assert (data / "tests" / "responses.jsonl").read_text() == ""
    assert results["unsound"] == {"bad": "the solution fails tests (1 of 1): f(1) gave 1, not 3"}
    tests = results["benchmarks"]["tests"]
    assert (tests["problems"], tests["sound"]) == (3, 2)
    assert tests["pass_at_5"]["value"] == 20  # a right test of each; `one`'s second has the first one's call
    assert tests["mul"] == pytest.approx(20 * tests["mut_at_5"]["value"] / 100) and tests["mul"] > 0
    both = run(capsys, "collaboration", "--samples", "samples.jsonl", "--test-samples", "tests.jsonl")
    assert both["benchmarks"]["problems"]["best_of_n"]["value"] == pytest.approx(100 / 3)
    suites = run(capsys, "suites", "--samples", "tests.jsonl", "--out", "suites")
    assert suites["benchmarks"]["static suites"] == {"problems": 2, "tests": 2, "wrong": 1}
    assert len((data / "suites" / "problems.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ("--data", "data.jsonl", "--samples", "reference", "--environment", "nowhere"),
            "--environment: nowhere/lib/python3",
        ),
        (("--data", "none.jsonl", "--samples", "reference"), "--data: none.jsonl: no such file"),
        (("--data", "data.jsonl", "--samples", "none.jsonl"), "none.jsonl: No such file"),
        (("--data", "data.jsonl", "--model", "./none"), "./none: no such directory"),
        (("--data", "data.jsonl", "--model", ".", "--top-p", "2"), "--top_p=2.0 must be in (0, 1]"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(data, capsys, arguments, reason):
    assert main(["eval", "code", *arguments]) == 2
    assert reason in capsys.readouterr().err
