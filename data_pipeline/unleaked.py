"""Reads UnLeakedTestBench (https://arxiv.org/abs/2508.00408): functions to write tests for.

The solution is the function under test; `check` holds the benchmark's own tests, one a line, of which the
golden tests are those that the suite language can say.
"""

from collections.abc import Sequence
from pathlib import Path

from data_pipeline.problem import Loaded, Problem
from data_pipeline.rows import BadRow, Row, collect, read_rows, text, texts
from data_pipeline.source_code import entry_function, parse, with_declaration
from sandbox.language import SuiteTest, parse_test

FIELDS = frozenset({"task_id", "func_name", "code", "prompt", "test_list"})


def read(path: str | Path) -> Loaded:
    """Every row as a problem, or refused by its task_id with the reason.

    Raises ValueError where the file cannot be read at all.
    """
    return from_rows(read_rows(path))


def from_rows(rows: Sequence[Row | BadRow]) -> Loaded:
    """As `read`, of rows already in memory."""
    return collect(rows, lambda row: f"ULT/{text(row, 'task_id')}", _problem)


def _problem(row: Row) -> Problem:
    solution, entry_point, check = text(row, "code"), text(row, "func_name"), texts(row, "test_list")
    return Problem(
        id=f"ULT/{text(row, 'task_id')}",
        question=with_declaration(text(row, "prompt"), entry_function(solution, entry_point)),
        solution=solution,
        entry_point=entry_point,
        golden_tests=_golden(check, entry_point),
        check="\n".join(check),
        source="ult",
    )


def _golden(lines: Sequence[str], entry_point: str) -> tuple[str, ...]:
    statements = [statement for line in lines for statement in parse(line, "the test code").body]
    tests = [parse_test(statement, entry_point, any_view=True) for statement in statements]
    return tuple(f"assert {test.call} == {test.stated}" for test in tests if isinstance(test, SuiteTest))
