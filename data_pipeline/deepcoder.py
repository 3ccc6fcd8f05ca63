"""Reads DeepCoder's set (https://huggingface.co/datasets/agentica-org/DeepCoder-Preview-Dataset), all of its parts.

`tests` is JSON in a text: {inputs, outputs, fn_name?} in `taco`, else a list of {input, output}, whose `type` or
`testtype` is standard input's. `lcbv5` and `codeforces` have no solutions: they can only be evaluated on.
"""

import re

from data_pipeline.apps import digest
from data_pipeline.problem import Problem, Row
from data_pipeline.row_format import Format
from data_pipeline.rows import document, mappings, text, texts
from data_pipeline.stream_rows import first_parsing, of_inputs_and_outputs, of_standard_input, stream, to_train_on

_FENCED = re.compile(r"\A\s*```\w*\n(.*?)\n```\s*\Z", re.DOTALL)


def _id(row: Row) -> str:
    return f"DeepCoder/{digest(text(row, 'problem'))}"


def _problem(row: Row) -> Problem:
    question, tests = text(row, "problem"), document(row, "tests")
    solution = first_parsing([_FENCED.sub(r"\1", program) for program in texts(row, "solutions")])
    if isinstance(tests, dict):
        problem = of_inputs_and_outputs(_id(row), question, solution, tests, "deepcoder")
    else:
        samples = of_standard_input(mappings(tests, "tests"))
        problem = stream(_id(row), question, solution, samples, "deepcoder")
    return to_train_on(problem) if solution else problem


FORMAT = Format("DeepCoder", frozenset({"problem", "tests"}), _id, _problem)
