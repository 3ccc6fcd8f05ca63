"""`codea1 data audit`: which checks believe programs that solve nothing, lie, or have a bug."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from data_pipeline import Problem, load
from data_pipeline.audit import audit_lines, audit_problems
from sandbox import SandboxPool

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
TRIVIAL = {"weak": ["return 0", "return the first argument", "empty the arguments"], "script": ["print 1"]}


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(1) as pool:
        yield pool


def written(folder: Path, *rows: dict) -> tuple[Problem, ...]:
    file = folder / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load(str(file)).problems


def test_what_checks_wrongly_pass_is_reported_by_problem_and_counted(tmp_path: Path, pool: SandboxPool):
    report = audit_problems(written(tmp_path, *ROWS), pool)
    assert report["passed_by_trivial"] == TRIVIAL and report["passed_by_lying"] == {}
    survivors = {f"return x // 2 -> return x {other}" for other in ("* 2", "// 1", "// 3")}
    assert {problem: set(changes) for problem, changes in report["survived"].items()} == {"weak": survivors}
    assert list(report["unjudged"]) == ["wrong"]
    lines = audit_lines(report)
    assert "passed by a program that solves nothing: script: print 1" in lines
    assert lines[-1].split() == ["problems", "3", "2", "0", "8", "3"]


def test_only_a_check_next_to_the_program_believes_one_that_lies(pool: SandboxPool):
    apart = Problem("apart", "?", HALVED, "f", (), check=CHECKED)
    next_to_it = Problem("next", "?", HALVED, "f", (), check=PATCHED, source="bigcodebench")
    assert audit_problems([apart, next_to_it], pool)["passed_by_lying"] == {"next": ["change what checks"]}


def test_data_that_cannot_be_audited_is_bad_input(tmp_path: Path, pool: SandboxPool):
    with pytest.raises(ValueError, match="its own solution fails its own check"):
        audit_problems(written(tmp_path, ROWS[-1]), pool)
