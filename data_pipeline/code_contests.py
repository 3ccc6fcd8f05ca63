"""Reads CodeContests (https://huggingface.co/datasets/deepmind/code_contests): programs that read standard input.

The solution is the first in Python 3. Tests are taken in the order private, generated, public: the first are the
judge's own, and the last stand in the question, where whoever writes a program sees their answers.

CodeContests+ (https://huggingface.co/datasets/ByteDance-Seed/Code-Contests-Plus, its parts `1x` to `5x`) has other
fields: those that https://github.com/cai-jianfeng/CodeContests-O (src/codecontests_o/data/codecontests.py) reads. Its
checkers are C++, which is not run.
"""

from dataclasses import replace

from data_pipeline.problem import BadRow, Problem, Row
from data_pipeline.row_format import Format
from data_pipeline.rows import mapping, mappings, number, text, texts
from data_pipeline.stream_rows import first_parsing, pairs, stream, to_train_on

_PYTHON3 = 3  # UNKNOWN_LANGUAGE, PYTHON, CPP, PYTHON3, JAVA


def _problem(row: Row, name: str) -> Problem:
    for field in ("input_file", "output_file"):
        if row.get(field):
            raise BadRow(f"{field} is {row[field]!r}: it uses a file, not standard input and output")
    solutions = pairs(*_fields(row, "solutions", "language", "solution"))
    programs = [program for language, program in solutions if language == _PYTHON3]
    solution = first_parsing(texts({"solution": programs}, "solution"))
    parts = ("private_tests", "generated_tests", "public_tests")
    tests = [sample for part in parts for sample in pairs(*_fields(row, part, "input", "output"))]
    problem = stream(name, text(row, "description"), solution, tests, "code_contests")
    limit = mapping(row.get("time_limit"), "time_limit")
    seconds = number(limit, "seconds") + number(limit, "nanos") / 1e9
    return to_train_on(replace(problem, seconds=seconds, memory_mb=number(row, "memory_limit_bytes") / 2**20))


def _fields(row: Row, name: str, *fields: str) -> tuple[object, ...]:
    value = mapping(row.get(name), name)
    return tuple(value.get(field) for field in fields)


def _plus_problem(row: Row, name: str) -> Problem:
    submitted = mappings(row.get("correct_submissions"), "correct_submissions")
    programs = [each.get("code") for each in submitted if each.get("language") == "py3"]
    tests = [(each.get("input"), each.get("output")) for each in mappings(row.get("test_cases"), "test_cases")]
    solution = first_parsing(texts({"code": programs}, "code"))
    problem = stream(name, text(row, "description"), solution, tests, "code_contests_plus")
    seconds = number(row, "time_limit") / 1_000
    return to_train_on(replace(problem, seconds=seconds, memory_mb=number(row, "memory_limit")))


FORMATS = (
    Format(
        "CodeContests",
        frozenset({"name", "description", "public_tests", "private_tests", "generated_tests", "solutions"}),
        lambda row: text(row, "name"),
        _problem,
    ),
    Format(
        "CodeContests+",
        frozenset({"source", "id", "description", "test_cases", "correct_submissions"}),
        lambda row: f"{text(row, 'source')}/{text(row, 'id')}",
        _plus_problem,
    ),
)
