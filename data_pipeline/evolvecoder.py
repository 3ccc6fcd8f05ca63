"""Reads EvolveCoder-22K (https://huggingface.co/datasets/TIGER-Lab/EvolveCoder-22K): functions to evaluate on.

By its card a row is {id, question, tests}; by https://github.com/TIGER-AI-Lab/EvolveCoder (step1_prompting.py) a
question declares a function and a test is an assert. Rows have no solutions.
"""

from data_pipeline.golden import golden_line, read_golden_test
from data_pipeline.problem import BadRow, Problem, Row
from data_pipeline.row_format import Format
from data_pipeline.rows import text, texts
from data_pipeline.source_code import function_under_test, parse
from sandbox import SuiteTest


def _problem(row: Row, name: str) -> Problem:
    question, tests = text(row, "question"), row["tests"]
    if isinstance(tests, list) and any(isinstance(test, dict) for test in tests):
        raise BadRow("no solution")
    statements = parse("\n".join(texts(row, "tests")), "the tests").body
    called = function_under_test(statements)
    read = [read_golden_test(each, called) for each in statements] if called else []
    golden = tuple(golden_line(test) for test in read if isinstance(test, SuiteTest))
    if not golden:
        raise BadRow("no test of the form assert call == value")
    return Problem(name, question, "", called or "", golden, source="evolvecoder")


# A row of your own that lacks its solution has more fields.
FORMAT = Format(
    "EvolveCoder",
    frozenset({"id", "question", "tests"}),
    lambda row: f"EvolveCoder/{text(row, 'id')}",
    _problem,
    exact=True,
)
