"""Reads KodCode-V1 rows (https://huggingface.co/datasets/KodCode/KodCode-V1): parquet, JSON or JSONL."""

import ast
from collections.abc import Sequence
from pathlib import Path

from data_pipeline.golden import golden_tests, parse
from data_pipeline.problem import Loaded, Problem
from data_pipeline.rows import BadRow, Row, collect, read_rows, text

FIELDS = frozenset({"question_id", "question", "solution", "test_info"})


def read(path: str | Path, difficulties: Sequence[str] = ()) -> Loaded:
    """Every row as a problem, or refused by its question_id with the reason; with `difficulties`, only those.

    Raises ValueError where the file cannot be read at all.
    """
    return from_rows(read_rows(path), difficulties)


def from_rows(rows: Sequence[Row | BadRow], difficulties: Sequence[str] = ()) -> Loaded:
    """As `read`, of rows already in memory."""

    def read_one(row: Row) -> Problem:
        if difficulties and row.get("gpt_difficulty") not in difficulties:
            raise BadRow(f"difficulty {row.get('gpt_difficulty')}")
        return _problem(row)

    return collect(rows, lambda row: text(row, "question_id"), read_one)


def _problem(row: Row) -> Problem:
    question, solution, tests = text(row, "question"), text(row, "solution"), text(row, "test", "test_code")
    functions = _functions(solution)
    entry_point, golden = _golden(tests, _candidates(row, functions))
    return Problem(
        id=text(row, "question_id"),
        question=_with_declaration(question, functions[entry_point]),
        solution=solution,
        entry_point=entry_point,
        golden_tests=golden,
        source="kodcode",
    )


def _functions(solution: str) -> dict[str, ast.FunctionDef]:
    module = parse(solution, "the solution")
    return {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}


def _candidates(row: Row, functions: dict[str, ast.FunctionDef]) -> list[str]:
    """The solution's functions, those that test_info names first."""
    infos = row.get("test_info") or []
    if not isinstance(infos, list) or not all(isinstance(info, dict) for info in infos):
        raise BadRow("test_info is no list of objects")
    named = [info.get("function_name") for info in infos]
    return list(dict.fromkeys([*(name for name in named if name in functions), *functions]))


def _golden(tests: str, candidates: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The entry point and its golden tests: the function that most of the tests are about."""
    if not candidates:
        raise BadRow("the solution defines no function")
    found = {name: golden_tests(tests, name) for name in candidates}
    entry_point = max(found, key=lambda name: len(found[name]))
    if not found[entry_point]:
        raise BadRow("no test of the form assert call == value")
    return entry_point, found[entry_point]


def _with_declaration(question: str, function: ast.FunctionDef) -> str:
    """The question; where it does not declare the function, with the declaration below it."""
    if f"def {function.name}" in question:
        return question
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{question.rstrip()}\n\ndef {function.name}({ast.unparse(function.args)}){returns}:"
