"""Your own problems: reads JSONL, JSON or parquet, writes JSONL.

A row is {id, question, solution, entry_point, tests?, atol?, rtol?, prompt?}. A test outside the language is left out
of its question, which stays.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from data_pipeline.golden import golden_line, read_golden_test
from data_pipeline.problem import BadRow, Problem, Row
from data_pipeline.row_format import Format
from data_pipeline.rows import conversation, identifier, number, text
from data_pipeline.source_code import entry_function, parse
from sandbox import EXACT, Rejected, SuiteTest, Tolerance

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
            **({"atol": problem.atol, "rtol": problem.rtol} if problem.atol or problem.rtol else {}),
            **({"prompt": json.loads(problem.prompt)} if problem.prompt else {}),
        }
        for problem in problems
    )
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


def _id(row: Row) -> str:
    return text(row, "id")


def _problem(row: Row) -> Problem:
    solution, entry_point = text(row, "solution"), identifier(row, "entry_point")
    entry_function(solution, entry_point)
    tolerance = _tolerance(row)
    return Problem(
        id=_id(row),
        question=text(row, "question"),
        solution=solution,
        entry_point=entry_point,
        golden_tests=tuple(golden_line(test) for test in _tests(row, tolerance) if isinstance(test, SuiteTest)),
        source="problems",
        atol=tolerance.atol,
        rtol=tolerance.rtol,
        prompt=conversation(row, "prompt"),
    )


def _dropped(row: Row) -> tuple[str, ...]:
    return tuple(test.reason for test in _tests(row, _tolerance(row)) if isinstance(test, Rejected))


def _tests(row: Row, tolerance: Tolerance) -> list[SuiteTest | Rejected]:
    """The row's tests, or why one is left out; where a test states no tolerance, the question's holds."""
    given = row.get("tests")
    if given is not None and not isinstance(given, list):
        raise BadRow("tests is not a list")
    return [_test(item, identifier(row, "entry_point"), tolerance) for item in given or ()]


def _test(item: object, entry_point: str, tolerance: Tolerance) -> SuiteTest | Rejected:
    """A test, given as a line or as an object `{"test": LINE, "atol": ..., "rtol": ...}`."""
    shown = repr(item if isinstance(item, str) else json.dumps(item, default=str))[:_SHOWN]
    try:
        fields = item if isinstance(item, dict) else {"test": item}
        statements = parse(text(fields, "test"), "it").body
        own = _tolerance(fields)
    except BadRow as error:
        return Rejected(f"the test {shown} is left out: {error}")
    test = read_golden_test(statements[0], entry_point) if len(statements) == 1 else Rejected("not one statement")
    if isinstance(test, Rejected):
        return Rejected(f"the test {shown} is outside the language of tests: {test.reason}")
    return replace(test, tolerance=next((each for each in (own, test.tolerance) if each != EXACT), tolerance))


def _tolerance(fields: Row) -> Tolerance:
    """The `atol` and `rtol` of a question or a test. Raises BadRow if they are none."""
    try:
        return Tolerance(number(fields, "atol"), number(fields, "rtol"))
    except ValueError as error:
        raise BadRow(str(error)) from None


FORMAT = Format("problems", frozenset({"id", "question", "solution", "entry_point"}), _id, _problem, _dropped)
