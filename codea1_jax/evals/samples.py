"""Samples in the form that evalplus and bigcodebench write and read: one JSON object a line.

A line holds `task_id` and either `solution`, the whole program, or `completion`, which continues the question.
Case does not tell task ids apart: MBPP/2 is evalplus' Mbpp/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codea1_jax.run.config import ConfigError
from data_pipeline import Problem
from data_pipeline.rows import BadRow, Row, read_rows, text, texts


@dataclass(frozen=True)
class Samples:
    """Programs, or tests, by problem; and the tasks of the file that are none of the problems."""

    of: dict[str, tuple[str, ...]]
    unknown: tuple[str, ...]


def read_programs(path: str | Path, problems: Sequence[Problem]) -> Samples:
    """The programs of a samples file. Raises ConfigError naming the first line that is no sample."""

    def program(row: Row, problem: Problem) -> tuple[str, ...]:
        if isinstance(row.get("solution"), str):
            return (row["solution"],)
        if isinstance(row.get("completion"), str):
            return (problem.question + row["completion"],)
        raise BadRow("no solution or completion")

    return _read(path, problems, program)


def read_tests(path: str | Path, problems: Sequence[Problem]) -> Samples:
    """The tests of a file of lines {task_id, tests}. Raises ConfigError naming the first line that is no sample."""
    return _read(path, problems, lambda row, problem: texts(row, "tests"))


def sample_line(problem: Problem, program: str) -> dict[str, Any]:
    """A program as a line of a samples file."""
    return {"task_id": problem.id.replace("MBPP/", "Mbpp/"), "solution": program}


def _read(path: str | Path, problems: Sequence[Problem], read: Any) -> Samples:
    by_id = {problem.id.lower(): problem for problem in problems}
    found: dict[str, tuple[str, ...]] = {}
    unknown: dict[str, None] = {}
    try:
        for number, row in enumerate(read_rows(path), start=1):
            try:
                if isinstance(row, BadRow):
                    raise row
                task = text(row, "task_id")
                problem = by_id.get(task.lower())
                if problem is None:
                    unknown[task] = None
                else:
                    found[problem.id] = (*found.get(problem.id, ()), *read(row, problem))
            except BadRow as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
    except ValueError as error:
        raise ConfigError(f"--samples: {error}") from error
    return Samples(found, tuple(unknown))
