"""Checks that pass for nothing are found, and good ones are not accused."""

import json
import math
from dataclasses import replace

from codea1_jax.cli import main
from data_pipeline import Problem, load, problem_files
from data_pipeline.audit import TRIVIAL, audit_lines, audit_problems, trivial_programs

CLOSE = "import numpy as np\ndef check(candidate):\n    assert np.allclose(candidate(3.5), 0.5)"
FOUND = "def check(candidate):\n    assert (candidate('a') is not None) == True"
ALIAS = "def check(candidate):\n    xs = [3, 1]\n    assert candidate(xs) == xs"
FRACTION = Problem("close", "?", "def f(x):\n    return x % 1", "f", (), check=CLOSE, source="closeness")
PROBLEMS = {
    # An empty array is close to everything, and an empty list is made one.
    FRACTION: {"return []", "return an empty array"},
    replace(FRACTION, id="found", solution="def f(x):\n    return x", check=FOUND): set(TRIVIAL) - {"return None"},
    replace(FRACTION, id="nothing", check="def check(candidate):\n    candidate", source="others"): set(TRIVIAL),
    replace(FRACTION, id="alias", solution="def f(xs):\n    return xs", check=ALIAS): {
        *("return the first argument", "empty the arguments")
    },
    Problem("same", "?", "def f(x):\n    return x", "f", ("assert f(2) == 2", "assert f('a') == 'a'")): {
        "return the first argument",
        "empty the arguments",
    },
    Problem("zero", "?", "def f(x):\n    return False", "f", ("assert f(2) == False",)): {"return 0"},
    Problem("emptied", "?", "def f(x):\n    x.clear()\n    return x", "f", ("assert f([1]) == []",)): {
        *("return []", "empty the arguments")
    },
    Problem("good", "?", "def f(x):\n    return 2 * x", "f", ("assert f(2) == 4", "assert f([1]) == [1, 1]")): set(),
    Problem("keywords", "?", "def f(*, x):\n    return x", "f", ("assert f(x=2) == 2",)): {
        *("return the first argument", "empty the arguments")
    },
}


def test_what_trivial_programs_pass_is_listed_by_problem(numpy_pool):
    unsound = replace(FRACTION, id="unsound", solution="def f(x):\n    return x")
    found = audit_problems([*PROBLEMS, unsound], numpy_pool)
    passed = {task: set(names) for task, names in found["passed_by_trivial"].items()}
    assert passed == {problem.id: passing for problem, passing in PROBLEMS.items() if passing}
    assert sum(counts["problems"] for counts in found["audited"].values()) == len(PROBLEMS)


def test_trivial_programs_do_what_they_are_called():
    values = []
    for program in trivial_programs("f"):
        names = {}
        exec(program, names)
        values.append(names["f"]([1], 2))
    none, *empty, zero, inf, nan, array, first, emptied = values
    assert (none, empty, zero, inf, array.size) == (None, [[], {}, ""], 0, math.inf, 0)
    assert math.isnan(nan)
    assert (first, emptied) == ([1], [])


def test_the_command_lists_them(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problems = [problem for problem in PROBLEMS if problem.golden_tests]
    problem_files.write("mine.jsonl", problems)
    assert main(["data", "audit", "mine.jsonl", "--workers", "1"]) == 0
    out = capsys.readouterr().out
    assert "passed by a program that solves nothing: zero: return 0\n" in out
    assert out.splitlines()[-1].split()[:4] == ["problems", "5", "4", "0"]
    assert main(["data", "audit", "mine.jsonl", "--workers", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed_by_trivial"]["zero"] == ["return 0"]


HALVED = "def f(x):\n    return x // 2"
STRICT = [f"assert f({x}) == {x // 2}" for x in (-3, -1, 0, 1, 2, 3, 7, 100)]
PATCHED = "import unittest\nclass TestCases(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(3), 1)"
CHECKED = "def check(candidate):\n    assert candidate(3) == 1 and candidate(1) == 0 and candidate(4) == 2"
ROWS = [
    {"id": "strict", "question": "?", "solution": HALVED, "entry_point": "f", "tests": STRICT},
    {"id": "weak", "question": "?", "solution": HALVED, "entry_point": "f", "tests": ["assert f(0) == 0"]},
    {"id": "script", "question": "?", "solution": "print(1)", "tests": [{"input": "5\n", "output": "1"}]},
    {"id": "wrong", "question": "?", "solution": "def f(x):\n    return 1", "entry_point": "f", "tests": STRICT},
]


def test_what_checks_wrongly_pass_is_reported_by_problem_and_counted(pool, tmp_path):
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    report = audit_problems(load(str(tmp_path / "mine.jsonl")).problems, pool)
    passed = {"weak": ["return 0", "return the first argument", "empty the arguments"], "script": ["print 1"]}
    assert report["passed_by_trivial"] == passed and report["passed_by_lying"] == {}
    survivors = {f"return x // 2 -> return x {other}" for other in ("* 2", "// 1", "// 3")}
    assert {problem: set(changes) for problem, changes in report["survived"].items()} == {"weak": survivors}
    assert list(report["unjudged"]) == ["wrong"]
    lines = audit_lines(report)
    assert "passed by a program that solves nothing: script: print 1" in lines
    assert lines[-1].split() == ["problems", "3", "2", "0", "8", "3"]


def test_only_a_check_next_to_the_program_believes_one_that_lies(pool):
    apart = Problem("apart", "?", HALVED, "f", (), check=CHECKED)
    next_to_it = Problem("next", "?", HALVED, "f", (), check=PATCHED, source="bigcodebench")
    assert audit_problems([apart, next_to_it], pool)["passed_by_lying"] == {"next": ["change what checks"]}


def test_data_without_anything_to_audit_is_bad_input(tmp_path, capsys):
    problem_files.write(tmp_path / "mine.jsonl", [Problem("x", "?", "def f(x):\n    return x", "f", ())])
    assert main(["data", "audit", str(tmp_path / "mine.jsonl"), "--workers", "1"]) == 2
    assert "no problem of it can be judged (it has neither a check nor tests)" in capsys.readouterr().err
