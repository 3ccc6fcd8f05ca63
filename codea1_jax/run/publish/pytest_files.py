"""Questions with tests as pytest files: one a question, which runs without this project.

    PROGRAM=mine.py pytest exported/test_twice.py

runs the program in `mine.py`; without PROGRAM it is the question's own solution, which lies in `solutions/`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from sandbox import Task, nodes

_IMPORTS = """import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = os.environ.get("PROGRAM", str(Path(__file__).parent / "solutions" / Path(__file__).name[len("test_") :]))
"""
_CALLED = """

@pytest.fixture(scope="module", autouse=True)
def program():
    globals().update(runpy.run_path(PROGRAM))
"""
# Outputs are compared token by token, numbers by their value, as `sandbox.streams` does.
_STREAM = """

def same(word, right):
    try:
        return word == right or abs(float(word) - float(right)) <= max({atol!r}, {rtol!r} * abs(float(right)))
    except ValueError:
        return False


def check(given, output, expected):
    words, right = output.split(), expected.split()
    return len(words) == len(right) and all(map(same, words, right))


{checker}


@pytest.mark.parametrize(("given", "expected"), {tests!r})
def test_output(given, expected):
    done = subprocess.run([sys.executable, PROGRAM], input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert check(given, "\\n".join(done.stdout.split()), "\\n".join(expected.split())), done.stdout
"""


def write(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """Writes a file for each row of `data_pipeline.problem_files` that has tests.

    Returns the ids of those that are left out: they have none, or they are about linked lists or trees, which only the
    judge makes of lists.
    """
    (folder / "solutions").mkdir(parents=True, exist_ok=True)
    left_out = []
    for number, row in enumerate(rows):
        entry_point = row.get("entry_point") or ""
        if not row["tests"] or nodes.signatures(row["solution"], entry_point):
            left_out.append(row["id"])
            continue
        stem = f"{number:04d}_{re.sub(r'[^A-Za-z0-9]+', '_', row['id'])[:60]}"
        (folder / "solutions" / f"{stem}.py").write_text(row["solution"].rstrip("\n") + "\n")
        (folder / f"test_{stem}.py").write_text(_file(row))
    return left_out


def _file(row: Mapping[str, Any]) -> str:
    header = f"{row['question']!r}\n\n{_IMPORTS}"
    if row.get("task") == Task.STREAM:
        tests = [(test["input"], test["output"]) for test in row["tests"]]
        given = {"atol": row.get("atol", 0.0), "rtol": row.get("rtol", 0.0)}
        return header + _STREAM.format(tests=tests, checker=row.get("checker", ""), **given)
    functions = (f"\n\ndef test_{i}():\n{indent(test, '    ')}\n" for i, test in enumerate(row["tests"]))
    return "".join([header, _CALLED, *functions])
