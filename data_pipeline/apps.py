"""Reads APPS (https://huggingface.co/datasets/codeparrot/apps) and TACO (https://huggingface.co/datasets/BAAI/TACO).

`solutions` and `input_output` are JSON in texts. Most solutions are programs that read standard input; where
`input_output` names a function (fn_name), they define it.
"""

import hashlib
import re
from dataclasses import replace

from data_pipeline.problem import Problem, Row
from data_pipeline.row_format import Format
from data_pipeline.rows import document, identity, mapping, text, texts
from data_pipeline.stream_rows import first_parsing, of_inputs_and_outputs, to_train_on

_SECONDS = re.compile(r"\s*(\d{1,4}(?:\.\d{1,6})?)\s*s", re.IGNORECASE)


def _apps_id(row: Row) -> str:
    return f"APPS/{identity(row, 'problem_id')}"


def _taco_id(row: Row) -> str:
    return f"TACO/{digest(text(row, 'question'))}"


def digest(question: str) -> str:
    """A name for a question whose dataset gives it none."""
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _apps_problem(row: Row) -> Problem:
    return _problem(row, _apps_id(row), "apps")


def _taco_problem(row: Row) -> Problem:
    limit = _SECONDS.match(str(row.get("time_limit")))
    return replace(_problem(row, _taco_id(row), "taco"), seconds=float(limit[1]) if limit else 0.0)


def _problem(row: Row, name: str, source: str) -> Problem:
    question, tests = text(row, "question"), mapping(document(row, "input_output"), "input_output")
    solution = first_parsing(texts({"solutions": document(row, "solutions")}, "solutions"))
    return to_train_on(of_inputs_and_outputs(name, question, solution, tests, source))


def _difficulty(row: Row) -> object:
    difficulty = row.get("difficulty")
    return difficulty.lower() if isinstance(difficulty, str) else difficulty


_FIELDS = frozenset({"question", "solutions", "input_output"})
FORMATS = (
    Format("APPS", _FIELDS | {"problem_id"}, _apps_id, _apps_problem, difficulty_of=_difficulty),
    Format("TACO", _FIELDS, _taco_id, _taco_problem, difficulty_of=_difficulty),
)
