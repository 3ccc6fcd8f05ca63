"""`codea1 solve`: the program that survives most tests is printed, with what killed the others."""

import json

import pytest
from tiny_run import first_run

from codea1_jax.cli import main
from codea1_jax.evals.collaboration import solve
from codea1_jax.evals.samples import RecordedPlayer
from codea1_jax.game.players import TextPlayer
from data_pipeline import problem_files
from sandbox import Task


def test_a_text_becomes_a_question_by_the_signature_that_it_shows(tmp_path):
    texts = {
        "double.md": ("# Doubling\n\n```python\ndef double(x):\n```\nreturns twice x.", Task.FUNCTION, "double"),
        "queue.txt": ("Write\n\nclass Queue:\n    ...", Task.CLASS, "Queue"),
        "sum.md": ("Read two numbers and print their sum. We define no class of inputs.", Task.STREAM, ""),
    }
    for name, (text, task, entry_point) in texts.items():
        (tmp_path / name).write_text(text)
        (problem,) = problem_files.asked(tmp_path / name)
        assert (problem.question, problem.task, problem.entry_point) == (text, task, entry_point)
        assert problem.id == name.partition(".")[0] and not problem.solution


@pytest.mark.parametrize(
    ("text", "task", "entry_point"),
    [
        ("class TreeNode:\n    ...\n\nclass Solution:\n    def depth(self, root): ...", Task.CLASS, "Solution"),
        ("Given\n\ndef gcd(a, b): ...\n\nImplement the function `lcm`.\n\ndef lcm(a, b): ...", Task.FUNCTION, "lcm"),
        ("def square(x): ...\n\ndef cube(x):\n    >>> cube(square(2))\n    64", Task.FUNCTION, "cube"),
        (
            "class Item:\n    pass\nDesign class Stock(dict) of items.\n\nclass Stock(dict):\n    def sell(self):",
            Task.CLASS,
            "Stock",
        ),
        ("There is one\nclass or more. Print how many.", Task.STREAM, ""),
        ("class ListNode:\n    ...\ndef middle(head): ...", Task.FUNCTION, "middle"),
    ],
)
def test_of_several_signatures_the_text_tells_which_is_asked_for(text, task, entry_point):
    problem = problem_files.question("q", text)
    assert (problem.task, problem.entry_point) == (task, entry_point)


def test_a_text_that_does_not_tell_what_it_asks_for_ends_the_command_with_one_line(tmp_path, capsys):
    (tmp_path / "two.md").write_text("def up(x): ...\n\ndef down(x): ...")
    assert main(["solve", str(tmp_path / "two.md"), "--model", "none"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("two.md: it shows up and down: write in it `Write NAME` of the one that is asked for")


def test_rows_are_asked_without_what_they_know(tmp_path):
    rows = [
        {"id": "a", "question": "?", "entry_point": "f"},
        {"id": "b", "question": "?", "entry_point": "Q", "solution": "class Q: pass", "tests": []},
        {"id": "c", "question": "?", "solution": "print(1)", "tests": [{"input": "", "output": "1"}]},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = problem_files.asked(tmp_path / "rows.jsonl")
    assert [problem.task for problem in asked] == [Task.FUNCTION, Task.CLASS, Task.STREAM]
    assert not any(problem.solution or problem.golden_tests for problem in asked)


def test_the_program_that_passes_most_comes_first_and_of_equals_the_one_drawn_most(pool, tmp_path):
    (tmp_path / "double.md").write_text("def f(x): twice x")
    (problem,) = problem_files.asked(tmp_path / "double.md")
    programs = (
        "def f(x): return x",
        "def f(x): return x + x",
        "def f(",
        "def f(x): return 2 * x",
        "def f(x): return 2 * x",
    )
    shown = []

    def respond(requests):
        shown.extend(request.program for request in requests)
        yield from ((i, ("assert f(1) == 2\nassert f(0) == 0",)) for i, _ in enumerate(requests))

    first, second, third, fourth = solve(problem, RecordedPlayer({"double": programs}), TextPlayer(respond), 5, pool)
    assert shown == [*dict.fromkeys(programs)]
    assert (first.program, first.copies, first.passed, first.killed_by) == (programs[3], 2, 2, ())
    assert (second.program, second.copies) == (programs[1], 1)
    assert (third.program, third.killed_by) == (programs[0], ("assert f(1) == 2",))
    assert (fourth.passed, len(fourth.killed_by)) == (0, 2)


def test_a_runs_models_solve_a_file_from_the_command_line(tmp_path, capsys):
    question = {"id": "q", "question": "Write f(x): return x + 1.", "entry_point": "f"}
    (tmp_path / "q.jsonl").write_text(json.dumps(question))
    words = ("solve", str(tmp_path / "q.jsonl"), "--model", str(first_run()), "--n", "3", "--max-tokens", "32")
    assert main([*words, "--workers", "1", "--json"]) == 0
    programs = json.loads(capsys.readouterr().out)["q"]
    assert sum(each["copies"] for each in programs) == 3
    assert len({each["passed"] + len(each["killed_by"]) for each in programs}) == 1  # all face the same tests
    assert main([*words, "--workers", "1"]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == programs[0]["program"].strip()
    faced = programs[0]["passed"] + len(programs[0]["killed_by"])
    said = f"q: passes {programs[0]['passed']} of {faced}" if faced else "no test that can be read"
    assert said in printed.err
    (tmp_path / "q.md").write_text(question["question"])
    assert main([words[0], str(tmp_path / "q.md"), *words[2:], "--workers", "1"]) == 0
    assert "no test that can be read" in (hint := capsys.readouterr().err) and "`def NAME(...)`" in hint


@pytest.mark.parametrize(("name", "content"), [("no.md", None), ("no.jsonl", '{"id": "a"}')])
def test_what_is_not_a_question_is_refused_in_a_line(name, content, tmp_path, capsys):
    if content is not None:
        (tmp_path / name).write_text(content)
    assert main(["solve", str(tmp_path / name), "--model", "x"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("codea1: FILE: ") and len(said.splitlines()) == 1
