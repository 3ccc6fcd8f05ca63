"""Samples in files of the form that evalplus and bigcodebench write and read: one JSON object a line.

A line holds `task_id` and either `solution`, a whole program, or `completion`, which continues the question; for tests,
`tests`, a list of them. Case does not distinguish task ids: MBPP/2 is evalplus' Mbpp/2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from codea1_jax.common.errors import UserError
from codea1_jax.evals.answers.recorded import RecordedPlayer
from data_pipeline import Problem
from data_pipeline.golden import plain_golden_tests
from data_pipeline.row import BadRow, Row
from data_pipeline.rows import read_rows, text, texts

# How a file is read for problems: what it records, and its tasks that are none of them.
ReadSamples = Callable[[str, Sequence[Problem]], tuple[RecordedPlayer, tuple[str, ...]]]


def read_programs(path: str | Path, problems: Sequence[Problem]) -> tuple[RecordedPlayer, tuple[str, ...]]:
    """The programs of a file, and its tasks that are none of the problems.

    Raises UserError naming the first line that is not a sample.
    """
    found, unknown = _read(path, problems, _programs)
    return RecordedPlayer(programs_of=found), unknown


def read_tests(path: str | Path, problems: Sequence[Problem]) -> tuple[RecordedPlayer, tuple[str, ...]]:
    """The tests of a file, as `read_programs`."""
    found, unknown = _read(path, problems, lambda row, problem: texts(row, "tests"))
    return RecordedPlayer(tests_of=found), unknown


def references(problems: Sequence[Problem]) -> RecordedPlayer:
    """The data's own solutions and tests."""
    return RecordedPlayer(
        programs_of={problem.id: (problem.solution,) for problem in problems},
        tests_of={p.id: tuple(p.check.splitlines()) if p.source == "ult" else plain_golden_tests(p) for p in problems},
    )


def sample_line(problem: Problem, program: str) -> dict[str, Any]:
    """A program as a line of a samples file."""
    return {"task_id": problem.id.replace("MBPP/", "Mbpp/"), "solution": program}


def _programs(row: Row, problem: Problem) -> tuple[str, ...]:
    if isinstance(row.get("solution"), str):
        return (row["solution"],)
    if isinstance(row.get("completion"), str):
        return (problem.question + row["completion"],)
    raise BadRow("no solution or completion")


def _read(
    path: str | Path, problems: Sequence[Problem], read: Callable[[Row, Problem], tuple[str, ...]]
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    by_id = {problem.id.lower(): problem for problem in problems}
    found: dict[str, list[str]] = {}
    unknown: dict[str, None] = {}
    for number, row in enumerate(_rows(path), start=1):
        try:
            if isinstance(row, BadRow):
                raise row
            task = text(row, "task_id")
            problem = by_id.get(task.lower())
            if problem is None:
                unknown[task] = None
            else:
                found.setdefault(problem.id, []).extend(read(row, problem))
        except BadRow as error:
            raise UserError(f"--samples: {path}, line {number}: {error}") from None
    return {name: tuple(samples) for name, samples in found.items()}, tuple(unknown)


def _rows(path: str | Path) -> list[Row | BadRow]:
    try:
        return read_rows(path)
    except ValueError as error:
        raise UserError(f"--samples: {error}") from error
