"""Reads and writes anybody's own problems: JSONL (JSON, parquet) of {id, question, solution, entry_point, tests?}."""

import json
from collections.abc import Sequence
from pathlib import Path

from data_pipeline.problem import Loaded, Problem
from data_pipeline.rows import BadRow, Row, collect, read_rows, text, texts
from data_pipeline.source_code import entry_function, parse
from sandbox.language import Rejected, parse_test

FIELDS = frozenset({"id", "question", "solution", "entry_point"})
_SHOWN = 100  # characters of a test that a reason shows


def read(path: str | Path) -> Loaded:
    """Every row as a problem, or refused by its id with the reason.

    Raises ValueError where the file cannot be read at all.
    """
    return from_rows(read_rows(path))


def from_rows(rows: Sequence[Row | BadRow]) -> Loaded:
    """As `read`, of rows already in memory."""
    return collect(rows, lambda row: text(row, "id"), _problem)


def write(path: str | Path, problems: Sequence[Problem]) -> None:
    """Problems as JSONL that `read` takes, their golden tests as `tests`."""
    rows = (
        {
            "id": problem.id,
            "question": problem.question,
            "solution": problem.solution,
            "entry_point": problem.entry_point,
            "tests": problem.golden_tests,
        }
        for problem in problems
    )
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


def _problem(row: Row) -> Problem:
    solution, entry_point = text(row, "solution"), text(row, "entry_point")
    entry_function(solution, entry_point)
    return Problem(
        id=text(row, "id"),
        question=text(row, "question"),
        solution=solution,
        entry_point=entry_point,
        golden_tests=tuple(_test(line, entry_point) for line in texts(row, "tests")),
        source="problems",
    )


def _test(line: str, entry_point: str) -> str:
    """The line as a golden test, normalized. Raises BadRow where it is none."""
    statements = parse(line, f"the test {line[:_SHOWN]!r}").body
    test = (
        parse_test(statements[0], entry_point, any_view=True) if len(statements) == 1 else Rejected("not one statement")
    )
    if isinstance(test, Rejected):
        raise BadRow(f"the test {line[:_SHOWN]!r}: {test.reason}")
    return f"assert {test.call} == {test.stated}"
