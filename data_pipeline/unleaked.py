"""Reads UnLeakedTestBench (https://arxiv.org/abs/2508.00408): functions to write tests for.

The solution is the function under test. `check` holds the benchmark's own tests, one per line; the golden tests are
those that the suite language can express. Functions run below a header of common imports, without which some of them
do not: the benchmark leaves their own imports out.
"""

from collections.abc import Sequence

from data_pipeline.problem import Problem
from data_pipeline.row_format import Format
from data_pipeline.rows import Row, identifier, text, texts
from data_pipeline.source_code import entry_function, parse, with_declaration
from sandbox.language import SuiteTest, parse_test

# What the benchmark's scripts import above function and tests, except for pandas and pytest, which no function needs;
# and the five modules that they lack for some functions to run: bisect, collections, functools, heapq, itertools.
HEADER = """\
import bisect, collections, datetime, functools, heapq, itertools, math, os, random, re, string, traceback, warnings
import numpy
import numpy as np
from typing import Any, Callable, Dict, FrozenSet, Generator, Iterable, List, Optional, Sequence, Set, Tuple, Union
"""


def _problem(row: Row, name: str) -> Problem:
    solution, entry_point, check = text(row, "code"), identifier(row, "func_name"), texts(row, "test_list")
    return Problem(
        id=name,
        question=with_declaration(text(row, "prompt"), entry_function(solution, entry_point)),
        solution=solution,
        entry_point=entry_point,
        golden_tests=_golden(check, entry_point),
        check="\n".join(check),
        preamble=HEADER,
        source="ult",
        description=text(row, "prompt"),
    )


def _golden(lines: Sequence[str], entry_point: str) -> tuple[str, ...]:
    statements = [statement for line in lines for statement in parse(line, "the test code").body]
    tests = [parse_test(statement, entry_point, any_view=True) for statement in statements]
    return tuple(f"assert {test.call} == {test.stated}" for test in tests if isinstance(test, SuiteTest))


FORMAT = Format(
    "UnLeakedTestBench",
    frozenset({"task_id", "func_name", "code", "prompt", "test_list"}),
    lambda row: f"ULT/{text(row, 'task_id')}",
    _problem,
)
