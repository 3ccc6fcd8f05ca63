"""`codea1 export`: what other tools read is what was recorded, and pytest passes and fails the right programs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
import yaml
from example_run import write_example_run

from codea1_jax.cli import main
from codea1_jax.run.publish import pytest_files


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_example_run(folder, steps=10)
    config = {"method": {"name": "a1"}, "model": {"pretrained": "a/b"}, "data": {"source": "x"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config | {"run": {"directory": str(folder)}}))
    return folder


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


def test_every_kind_of_question_becomes_a_pytest_file(tmp_path):
    def row(name, solution, tests, entry_point="", **more):
        return {"id": name, "question": 'A "box"\n\\d', "solution": solution, "tests": tests} | (
            {"entry_point": entry_point} if entry_point else {"task": "stream"} | more
        )

    node = "def f(head: ListNode) -> ListNode:\n    return head"
    any_order = "def check(given, output, expected):\n    return set(output.split()) == set(expected.split())"
    halves = [{"input": "3\n", "output": "1.50\n"}, {"input": "4\n", "output": "2"}]
    rows = [
        row(
            "mean/1",
            "def mean(xs):\n    return sum(xs) / len(xs)",
            ["assert mean([0.1, 0.2]) == pytest.approx(0.15, rel=0.0, abs=1e-9)"],
            "mean",
        ),
        row(
            "box",
            "class Box:\n    def __init__(self, x):\n        self.x = x\n",
            ["made = Box(3)\nassert made.x == 3"],
            "Box",
        ),
        row("half", "print(int(input()) / 2)", halves, atol=1e-6, rtol=0.0),
        row("any", "print(1, 2)", [{"input": "\n", "output": "2 1"}], checker=any_order),
        row("none", "def f(): pass", [], "f"),
        row("list", node, ["assert f([1]) == [1]"], "f"),
    ]
    assert pytest_files.write(rows, tmp_path) == ["none", "list"]
    passed = {path.name: run_pytest(path) for path in sorted(tmp_path.glob("test_*.py"))}
    assert [text.partition(" in ")[0] for text in passed.values()] == ["1 passed", "1 passed", "2 passed", "1 passed"]
    (tmp_path / "third.py").write_text("print(int(input()) // 2)\n")
    assert run_pytest(tmp_path / "test_0002_half.py", tmp_path / "third.py").startswith("1 failed, 1 passed")
    (tmp_path / "other.py").write_text("print(1, 1)\n")
    assert run_pytest(tmp_path / "test_0003_any.py", tmp_path / "other.py").startswith("1 failed")


@pytest.mark.parametrize(
    ("source", "form", "reason"),
    [
        (".", "dataset", "not a run"),
        ("none.jsonl", "pytest", "no such file"),
    ],
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
