"""The forms of the micro world: functions that are called, programs that read standard input, and harder functions."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from data_pipeline.golden import stream_line
from sandbox import Task, streams

Arguments = tuple[int, ...] | tuple[tuple[int, ...]] | tuple[str]
"""Numbers, one list of numbers (as a tuple), or one string."""


@dataclass(frozen=True)
class Form:
    """How programs are written, asked for and tested.

    requests: what a question begins with, by the program's parameters. openings: what a program begins with, up to its
    result or, of a list, up to the condition of its items. kept: what stands between this condition and the result.
    end: what stands behind the result. given: what a test puts in. golden_line: a test, of what it puts in and of the
    answer, as a problem keeps it. spelled: the same as a suite has it. states: what stands before its answer there.
    test_words: the fixed parts of tests in a suite.
    """

    task: Task
    requests: Mapping[str, str]
    openings: Mapping[str, str]
    kept: str
    end: str
    given: Callable[[Arguments], str]
    golden_line: Callable[[str, str], str]
    spelled: Callable[[str, str], str]
    states: str
    test_words: tuple[str, ...]


def _call(arguments: Arguments) -> str:
    return f"f({', '.join(map(json.dumps, arguments))})"


def _line_of_input(arguments: Arguments) -> str:
    numbers = (str(number) for value in arguments for number in (value if isinstance(value, tuple) else (value,)))
    return " ".join(numbers) + "\n"


def _assertion(call: str, value: str) -> str:
    return f"assert {call} == {value}"


FUNCTION = Form(
    task=Task.FUNCTION,
    requests={"x": "Write f(x): return ", "x, y": "Write f(x, y): return ", "xs": "Write f(xs): return the "},
    openings={
        "x": "def f(x):\n    return ",
        "x, y": "def f(x, y):\n    return ",
        "xs": "def f(xs):\n    s = [x for x in xs if ",
    },
    kept="]\n    return ",
    end="",
    given=_call,
    golden_line=_assertion,
    spelled=_assertion,
    states=" == ",
    test_words=("assert f(", "assert f([", ", ", ") == ", "]) == "),
)
STREAM = Form(
    task=Task.STREAM,
    requests={
        "x": "Read a number x: print ",
        "x, y": "Read a line of two numbers x and y: print ",
        "xs": "Read a line of numbers xs: print the ",
    },
    openings={
        "x": "x = int(input())\nprint(",
        "x, y": "x, y = map(int, input().split())\nprint(",
        "xs": "xs = list(map(int, input().split()))\ns = [x for x in xs if ",
    },
    kept="]\nprint(",
    end=")",
    given=_line_of_input,
    golden_line=stream_line,
    spelled=streams.spelled,
    states="```output\n",
    test_words=("```input\n", "\n```\n```output\n", "\n```\n", "\n```"),
)
HARD = replace(
    FUNCTION,
    requests={
        "x, y": "Write f(x, y): return ",
        "xs": "Write f(xs): start with ",
        "s": "Write f(s), where n is the number of ",
    },
    openings={"x, y": "def f(x, y):\n    if ", "xs": "def f(xs):\n    t = ", "s": 'def f(s):\n    n = s.count("'},
    kept="",
    test_words=("assert f(", "assert f([", 'assert f("', ", ", ") == ", "]) == ", '") == '),
)
FORMS: Mapping[str, Form] = {"function": FUNCTION, "stream": STREAM, "hard": HARD}
