"""`codea1 export`: what other tools read is what was recorded, and pytest passes and fails the right programs."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
import yaml
from example_run import write_example_run

from codea1_jax.cli import main
from codea1_jax.game.export import question_record
from codea1_jax.game.rewards import SuiteReward
from codea1_jax.game.rollouts import ProgramRollout, QuestionRollout, Response, SuiteRollout
from codea1_jax.game.suites import Suite
from codea1_jax.game.validation import ValidatedSuite
from codea1_jax.run.publish import pytest_files, tables
from codea1_judge import Judge, Problem
from data_pipeline.golden import read_golden_tests, stream_line
from sandbox import Status, Task, Test, Verdict
from sandbox.streams import encode_output


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_example_run(folder, steps=10)
    config = {"method": {"name": "a1"}, "model": {"pretrained": "a/b"}, "data": {"source": "x"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config | {"run": {"directory": str(folder)}}))
    return folder


def stream(name, solution, *tests, **more):
    return Problem(name, "?", solution, "", tuple(stream_line(*test) for test in tests), task=Task.STREAM, **more)


def function(name, solution, *tests, **more):
    return Problem(name, "?", solution, "f", tests, **more)


def recorded(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "rollouts" / "step_000010.jsonl").read_text().splitlines()]


def test_a_runs_programs_and_suites_are_the_rows_of_a_dataset(run, tmp_path):
    out = tmp_path / "mine"
    assert main(["export", str(run), str(out), "--to", "dataset"]) == 0
    programs, suites = (
        pyarrow.parquet.read_table(out / f"{name}.parquet").to_pylist() for name in ("programs", "suites")
    )
    questions = recorded(run)
    assert [(row["question_id"], row["index"], row["program"], row["reward"]) for row in programs] == [
        (q["question_id"], p["index"], p["program"], p["reward"]) for q in questions for p in q["programs"]
    ]
    assert [(row["question_id"], row["program_index"], row["program"], row["tests"]) for row in suites] == [
        (q["question_id"], p["index"], p["program"], s["tests"])
        for q in questions
        for p in q["programs"]
        for s in p["suites"]
    ]
    _, front, text = (out / "README.md").read_text().split("---\n", 2)
    files = {each["config_name"]: each["data_files"] for each in yaml.safe_load(front)["configs"]}
    assert files == {"programs": "programs.parquet", "suites": "suites.parquet"}
    assert f"| suites | {len(suites)} |" in text


def run_pytest(path: Path, program: Path | None = None) -> str:
    """What plain pytest prints last, in a process that does not know this project."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PROGRAM")}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **({"PROGRAM": str(program)} if program else {})}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, path.name]
    done = subprocess.run(command, cwd=path.parent, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[-1]


def test_a_runs_suites_as_pytest_files_pass_the_solutions_and_fail_a_wrong_program(run, tmp_path):
    out = tmp_path / "tests"
    assert main(["export", str(run), str(out), "--to", "pytest"]) == 0
    question = recorded(run)[0]
    tests = {test["call"] for p in question["programs"] for suite in p["suites"] for test in suite["tests"]}
    file = next(out.glob("test_0000_*.py"))
    assert len(list(out.glob("test_*.py"))) == len(recorded(run))
    assert run_pytest(file).startswith(f"{len(tests)} passed")
    (tmp_path / "wrong.py").write_text("def f(x):\n    return 'wrong'\n")
    assert run_pytest(file, tmp_path / "wrong.py").startswith(f"{len(tests)} failed")


LESS = """def check(given, output, expected):
    return int(output) < int(given)
"""
# Questions, each with a program, or its solution, and the judge's verdict, which plain tests do not always give.
JUDGED = [
    (stream("below", "print(int(input()) - 1)", ("4\n", "3"), checker=LESS), "print(int(input()) // 2)", True),
    (stream("below", "print(int(input()) - 1)", ("4\n", "3"), checker=LESS), "print(4)", False),
    (stream("third", "print(int(input()) / 3)", ("1", "0.333"), atol=1e-2), "print(0.34)", True),
    (stream("third", "print(int(input()) / 3)", ("1", "0.333"), atol=1e-2), "print(0.35)", False),
    (stream("large", "print(2 ** 53 + 1)", ("", "9007199254740993")), "print(2 ** 53)", False),
    (stream("words", "print('1e400 a')", ("", "1e400 a")), "print('1e500 a')", False),
    (function("f", "def f(x):\n    return x / 10", "assert f(3) == 0.3"), "def f(x):\n    return x * 0.1", True),
    (function("f", "def f(x):\n    return sqrt(x)", "assert f(4) == 2", preamble="from math import *\n"), None, True),
    (
        function("f", "def f(x):\n    return [x]", "assert f(1) == [1]"),
        "class Any:\n    def __eq__(self, other):\n        return True\n\ndef f(x):\n    return Any()",
        False,
    ),
    (
        Problem("node", "?", "def f(head: ListNode) -> ListNode:\n    return head", "f", ("assert f([1]) == [1]",)),
        None,
        True,
    ),
    (Problem("own", "?", "", "f", check="def check(f):\n    assert f(2) > 3"), "def f(x):\n    return 2 * x", True),
]


def test_an_exported_file_gives_the_verdict_of_the_judge(tmp_path):
    with Judge(workers=1) as judge:
        for problem, program, right in JUDGED:
            assert judge.judge(program or problem.solution, problem).passed == right, program
    assert pytest_files.write([*(problem for problem, _, _ in JUDGED), Problem("none", "?", "", "f")], tmp_path) == [
        "none"
    ]
    for number, (_, program, right) in enumerate(JUDGED):
        mine = tmp_path / "mine.py"
        mine.write_text(program or "")
        (file,) = tmp_path.glob(f"test_{number:04d}_*.py")
        said = run_pytest(file, mine if program else None)
        assert said.startswith("1 passed" if right else "1 failed"), (file, said)


def test_a_run_records_what_decides_its_verdicts_and_its_exported_file_has_it(tmp_path):
    problem = stream("below", "print(int(input()) - 1)", ("4\n", "3"), checker=LESS, seconds=2.5, memory_mb=300.0)
    test = Test("4\n", encode_output("3", as_printed=True))
    reward, response = SuiteReward(0.0, 0.0, 0.0), Response("")
    suite = SuiteRollout(response, Suite((), ()), ValidatedSuite((test,), 0), (Verdict(Status.PASSED),), reward)
    played = QuestionRollout(problem, {}, {}, (), (ProgramRollout(response, "", 0, True, (), (suite,)),))
    (run := tmp_path / "run" / "rollouts").mkdir(parents=True)
    record = question_record(1, played, {"code": str, "test": str})
    (run / "step_000001.jsonl").write_text(json.dumps(record) + "\n")
    (exported,) = tables.tested_questions(run.parent)
    assert replace(exported, golden_tests=problem.golden_tests, source="") == problem
    assert read_golden_tests(exported) == read_golden_tests(problem)


@pytest.mark.parametrize(
    ("source", "form", "reason"), [(".", "dataset", "not a run"), ("none.jsonl", "pytest", "no such file")]
)
def test_what_cannot_be_exported_is_refused_in_a_line(source, form, reason, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["export", source, "out", "--to", form]) == 2
    said = capsys.readouterr().err
    assert reason in said and len(said.splitlines()) == 1
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert main(["export", source, "full", "--to", form]) == 2
    assert "full: already exists" in capsys.readouterr().err
