"""Your own problems: reads JSONL, JSON or parquet of {id, question, solution, entry_point, tests?}, writes JSONL."""

import json
from collections.abc import Sequence
from pathlib import Path

from data_pipeline.dataset import Dataset, Format
from data_pipeline.problem import Problem
from data_pipeline.rows import BadRow, Row, text, texts
from data_pipeline.source_code import entry_function, parse
from sandbox.language import Rejected, parse_test

_SHOWN = 100  # characters of a test that a reason shows


def write(path: str | Path, problems: Sequence[Problem]) -> None:
    """Problems as JSONL in `FORMAT`, their golden tests as `tests`."""
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


def _id(row: Row) -> str:
    return text(row, "id")


def _problem(row: Row) -> Problem:
    solution, entry_point = text(row, "solution"), text(row, "entry_point")
    entry_function(solution, entry_point)
    return Problem(
        id=_id(row),
        question=text(row, "question"),
        solution=solution,
        entry_point=entry_point,
        golden_tests=tuple(_test(line, entry_point) for line in texts(row, "tests")),
        source="problems",
    )


def _test(line: str, entry_point: str) -> str:
    """The line as a golden test, normalized. Raises BadRow if it is not one."""
    shown = repr(line[:_SHOWN])
    statements = parse(line, f"the test {shown}").body
    test = (
        parse_test(statements[0], entry_point, any_view=True) if len(statements) == 1 else Rejected("not one statement")
    )
    if isinstance(test, Rejected):
        raise BadRow(f"the test {shown} is outside the language of tests: {test.reason}")
    return f"assert {test.call} == {test.stated}"


FORMAT = Format("problems", frozenset({"id", "question", "solution", "entry_point"}), _id, _problem)
DATASET = Dataset("problems", "your own problems", (FORMAT,), is_training_set=True)
