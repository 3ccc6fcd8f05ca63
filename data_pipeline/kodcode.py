"""Reads KodCode-V1 rows (https://huggingface.co/datasets/KodCode/KodCode-V1): parquet, JSON or JSONL."""

from collections.abc import Sequence

from data_pipeline.dataset import Dataset, Format
from data_pipeline.golden import golden_tests
from data_pipeline.problem import Problem
from data_pipeline.rows import BadRow, Row, text
from data_pipeline.source_code import functions, with_declaration


def _id(row: Row) -> str:
    return text(row, "question_id")


def _problem(row: Row) -> Problem:
    question, solution, tests = text(row, "question"), text(row, "solution"), text(row, "test", "test_code")
    defined = functions(solution)
    entry_point, golden = _golden(tests, _candidates(row, list(defined)))
    return Problem(
        id=_id(row),
        question=with_declaration(question, defined[entry_point]),
        solution=solution,
        entry_point=entry_point,
        golden_tests=golden,
        source="kodcode",
    )


def _candidates(row: Row, defined: Sequence[str]) -> list[str]:
    """The solution's functions, those that test_info names first."""
    infos = row.get("test_info") or []
    if not isinstance(infos, list) or not all(isinstance(info, dict) for info in infos):
        raise BadRow("test_info is not a list of objects")
    named = [info.get("function_name") for info in infos]
    return list(dict.fromkeys([*(name for name in named if name in defined), *defined]))


def _golden(tests: str, candidates: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The entry point and its golden tests: the function that most of the tests are about."""
    if not candidates:
        raise BadRow("the solution defines no function")
    found = {name: golden_tests(tests, name) for name in candidates}
    entry_point = max(found, key=lambda name: len(found[name]))
    if not found[entry_point]:
        raise BadRow("no test of the form assert call == value")
    return entry_point, found[entry_point]


FORMAT = Format(
    "KodCode",
    frozenset({"question_id", "question", "solution", "test_info"}),
    _id,
    _problem,
    difficulty_field="gpt_difficulty",
)
# What the presets of Qwen2.5-Coder train on: hard questions, none of which is in the sets that validate them.
DATASET = Dataset(
    "kodcode",
    "KodCode-V1",
    (FORMAT,),
    is_training_set=True,
    download="KodCode/KodCode-V1/data/train-*",
    difficulties=("hard",),
    against=("evalplus/humanevalplus", "evalplus/mbppplus"),
)
