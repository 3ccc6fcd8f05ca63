"""Reads LiveCodeBench (https://huggingface.co/datasets/livecodebench/code_generation_lite): problems to evaluate on.

Rows have no solutions. All tests are kept, however long: a score that is to be compared with others' needs them.
"""

import base64
import io
import pickle
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from data_pipeline.problem import BadRow, Problem, Row, one_line
from data_pipeline.row_format import Format
from data_pipeline.rows import document, mapping, mappings, parsed_json, text
from data_pipeline.stream_rows import Sample, of_standard_input, stream, tested
from sandbox import Task

SECONDS = 6.0
"""What the benchmark's own scorer allows a program for one test."""

_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json"),
)
PREAMBLE = "".join(f"from {module} import *\n" for module in (*_MODULES, "builtins", "typing"))
PREAMBLE += f"import {', '.join(_MODULES)}\nsys.setrecursionlimit(50000)\nsys.set_int_max_str_digits(50000)\n"
"""What its scorer has every program begin with."""

_MOST_BYTES = 1 << 30  # of one problem's tests, unpacked


def _problem(row: Row, name: str) -> Problem:
    public, private = document(row, "public_test_cases"), _private(row)
    tests = mappings(public, "public_test_cases") + mappings(private, "private_test_cases")
    question = text(row, "question_content")
    if {test.get("testtype") for test in tests} == {"functional"}:
        method = text(mapping(document(row, "metadata"), "metadata"), "func_name")
        samples = [(test.get("input"), test.get("output")) for test in tests]
        problem = of_method(name, f"{question}\n\n{text(row, 'starter_code')}", method, samples, "livecodebench")
    else:
        problem = tested(stream(name, question, "", of_standard_input(tests), "livecodebench"))
    return replace(problem, preamble=PREAMBLE, seconds=SECONDS, date=_date(row))


_CHECK = """\
import json, sys

sys.set_int_max_str_digits(50000)

def check(candidate):
    for arguments, value in {samples!r}:
        found = candidate((), [({method!r}, tuple(map(json.loads, arguments)))])
        assert (list(found) if type(found) is tuple else found) == json.loads(value)
"""


def of_method(name: str, question: str, method: str, tests: Sequence[Sample], source: str) -> Problem:
    """A problem about a method of `Solution`: its tests have an argument a line, in JSON. Raises BadRow for others."""
    texts = [(text({"input": given}, "input"), text({"output": value}, "output")) for given, value in tests]
    samples = [([line for line in given.split("\n") if line], value) for given, value in texts]
    if not samples:
        raise BadRow("it has no tests")
    try:
        for arguments, value in samples:
            deque(map(parsed_json, [*arguments, value]), maxlen=0)
    except ValueError as error:
        raise BadRow(f"an argument or a value of a test is not JSON: {one_line(error)}") from None
    check = _CHECK.format(samples=samples, method=method)
    return Problem(
        name, question, "", "Solution", (), check, source=source, task=Task.CLASS, preamble=PREAMBLE, seconds=SECONDS
    )


def _private(row: Row) -> object:
    packed = row.get("private_test_cases")
    if not isinstance(packed, str) or packed.lstrip()[:1] in ("[", ""):
        return document(row, "private_test_cases") if packed else []
    return document({"private_test_cases": unpacked(packed)}, "private_test_cases")


def _date(row: Row) -> str:
    day = str(row.get("contest_date") or "")[:10]
    try:
        return date.fromisoformat(day).isoformat() if day else ""
    except ValueError:
        raise BadRow(f"contest_date is {day!r}, not a date such as 2024-08-31") from None


class _PlainUnpickler(pickle.Unpickler):
    """Reads text, numbers, lists and dicts: whatever runs code begins by finding a class or a function."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def unpacked(packed: str) -> object:
    """The plain data of base64 of zlib of a pickle. Raises BadRow for anything else; no code of it runs."""
    try:
        unzip = zlib.decompressobj()
        data = unzip.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
        if not unzip.eof:
            raise ValueError(f"incomplete, or of more than {_MOST_BYTES} bytes")
        return _PlainUnpickler(io.BytesIO(data)).load()
    # All that a malformed pickle raises.
    except (
        ValueError,
        zlib.error,
        pickle.UnpicklingError,
        EOFError,
        LookupError,
        TypeError,
        AttributeError,
        MemoryError,
        OverflowError,
    ) as error:
        raise BadRow(f"tests that are not JSON cannot be unpacked: {one_line(error)}") from None


FORMAT = Format(
    "LiveCodeBench",
    frozenset({"question_id", "question_content", "public_test_cases", "private_test_cases"}),
    lambda row: f"LCB/{text(row, 'question_id')}",
    _problem,
    difficulty_of=lambda row: row.get("difficulty"),
)
