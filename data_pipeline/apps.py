"""Reads APPS (https://huggingface.co/datasets/codeparrot/apps), TACO (https://huggingface.co/datasets/BAAI/TACO) and
DeepCoder (https://huggingface.co/datasets/agentica-org/DeepCoder-Preview-Dataset, all of its parts).

Solutions and tests are JSON in texts. Most solutions are programs that read standard input; where the tests name a
function (fn_name), they define it. Those of DeepCoder are {inputs, outputs, fn_name?} in `taco`, else a list of {input,
output}, whose `type` or `testtype` is standard input's; `lcbv5` and `codeforces` have no solutions: they can only be
evaluated on.
"""

import hashlib
import re
from dataclasses import replace

from data_pipeline.problem import Problem, Row
from data_pipeline.row_format import Format
from data_pipeline.rows import document, identity, mapping, mappings, text, texts
from data_pipeline.stream_rows import first_parsing, of_inputs_and_outputs, of_standard_input, stream, to_train_on

_SECONDS = re.compile(r"\s*(\d{1,4}(?:\.\d{1,6})?)\s*s", re.IGNORECASE)
_FENCED = re.compile(r"\A\s*```\w*\n(.*?)\n```\s*\Z", re.DOTALL)


def _digest(question: str) -> str:
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _apps(row: Row, name: str, source: str = "apps") -> Problem:
    question, tests = text(row, "question"), mapping(document(row, "input_output"), "input_output")
    solution = first_parsing(texts({"solutions": document(row, "solutions")}, "solutions"))
    return to_train_on(of_inputs_and_outputs(name, question, solution, tests, source))


def _taco(row: Row, name: str) -> Problem:
    limit = _SECONDS.match(str(row.get("time_limit")))
    return replace(_apps(row, name, "taco"), seconds=float(limit[1]) if limit else 0.0)


def _deepcoder(row: Row, name: str) -> Problem:
    question, tests = text(row, "problem"), document(row, "tests")
    solution = first_parsing([_FENCED.sub(r"\1", program) for program in texts(row, "solutions")])
    if isinstance(tests, dict):
        problem = of_inputs_and_outputs(name, question, solution, tests, "deepcoder")
    else:
        problem = stream(name, question, solution, of_standard_input(mappings(tests, "tests")), "deepcoder")
    return to_train_on(problem) if solution else problem


def _difficulty(row: Row) -> object:
    difficulty = row.get("difficulty")
    return difficulty.lower() if isinstance(difficulty, str) else difficulty


_FIELDS = frozenset({"question", "solutions", "input_output"})
FORMATS = (
    Format(
        "APPS",
        _FIELDS | {"problem_id"},
        lambda row: f"APPS/{identity(row, 'problem_id')}",
        _apps,
        difficulty_of=_difficulty,
    ),
    Format("TACO", _FIELDS, lambda row: f"TACO/{_digest(text(row, 'question'))}", _taco, difficulty_of=_difficulty),
    Format(
        "DeepCoder",
        frozenset({"problem", "tests"}),
        lambda row: f"DeepCoder/{_digest(text(row, 'problem'))}",
        _deepcoder,
    ),
)
