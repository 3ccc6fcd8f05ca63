"""Questions with tests as pytest files, one a question, which need `codea1-judge`: their verdicts are the judge's.

    PROGRAM=mine.py pytest exported/test_0000_twice.py

judges the program in `mine.py`; without PROGRAM it is the question's own solution.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from data_pipeline import Problem
from data_pipeline.imports import packages_of
from sandbox import Task

_FILE = """{question!r}

import os
from pathlib import Path

import pytest

from codea1_judge import Judge, Problem
from sandbox import Task

PROBLEM = Problem(
{fields}
)


@pytest.fixture(scope="module")
def verdicts():
    program = os.environ.get("PROGRAM")
    with Judge(workers=1, preload={packages!r}) as judge:
        return judge.judge(Path(program).read_text() if program else PROBLEM.solution, PROBLEM).tests


@pytest.mark.parametrize("number", range({count}))
def test_program(verdicts, number):
    assert verdicts[number].passed, (PROBLEM.check or PROBLEM.golden_tests[number], verdicts[number])
"""


def write(problems: Iterable[Problem], folder: Path) -> list[str]:
    """Writes a file for each problem that has tests, and returns the ids of the others."""
    folder.mkdir(parents=True, exist_ok=True)
    left_out = []
    for number, problem in enumerate(problems):
        count = 1 if problem.check else len(problem.golden_tests)
        if not count:
            left_out.append(problem.id)
            continue
        fields = [
            f"    {name}={f'Task.{value.name}' if isinstance(value, Task) else repr(value)},"
            for name, value in vars(problem).items()
            if value != getattr(Problem, name, None)  # the default
        ]
        packages = sorted(packages_of(problem.solution))
        text = _FILE.format(question=problem.question, fields="\n".join(fields), packages=packages, count=count)
        (folder / f"test_{number:04d}_{re.sub(r'[^A-Za-z0-9]+', '_', problem.id)[:60]}.py").write_text(text)
    return left_out
