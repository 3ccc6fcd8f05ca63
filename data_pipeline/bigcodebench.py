"""Reads BigCodeBench (https://huggingface.co/datasets/bigcode/bigcodebench): complete, in full or hard.

The problem's `check` is the benchmark's own unittest class, to be executed in one namespace with the program.
"""

from collections.abc import Sequence
from pathlib import Path

from data_pipeline.problem import Loaded, Problem
from data_pipeline.rows import BadRow, Row, collect, read_rows, text
from data_pipeline.source_code import entry_function, parse

FIELDS = frozenset({"task_id", "complete_prompt", "canonical_solution", "test", "entry_point"})


def read(path: str | Path) -> Loaded:
    """Every row as a problem, or refused by its task_id with the reason.

    Raises ValueError where the file cannot be read at all.
    """
    return from_rows(read_rows(path))


def from_rows(rows: Sequence[Row | BadRow]) -> Loaded:
    """As `read`, of rows already in memory."""
    return collect(rows, lambda row: text(row, "task_id"), _problem)


def _problem(row: Row) -> Problem:
    prompt, entry_point, check = text(row, "complete_prompt"), text(row, "entry_point"), text(row, "test")
    solution = prompt + text(row, "canonical_solution")
    entry_function(solution, entry_point)
    parse(check, "the test code")
    return Problem(
        id=text(row, "task_id"),
        question=prompt,
        solution=solution,
        entry_point=entry_point,
        golden_tests=(),
        check=check,
        # "Calibrated", as the benchmark's leaderboard has it: a sample may count on the question's imports.
        preamble=f"{text(row, 'code_prompt')}\n    pass\n" if row.get("code_prompt") else "",
        source="bigcodebench",
    )
