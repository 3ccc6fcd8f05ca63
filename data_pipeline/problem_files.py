"""Your own problems: reads JSONL, JSON or parquet, writes JSONL.

A row is {id, question, solution, entry_point, tests?, seconds?, atol?, rtol?, prompt?}, a test `assert CALL == VALUE`.
Where entry_point is a class, a test is Python that makes an object, calls its methods and asserts. A program that reads
standard input has no entry_point, its tests are {input, output}, and it may have a checker. A test that is none of
these, or outside the language, is left out of its question, which stays.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from textwrap import indent

from data_pipeline.golden import (
    golden_line,
    golden_tests_of_class,
    plain_golden_tests,
    read_golden_test,
    read_golden_tests,
)
from data_pipeline.problem import BadRow, Problem, Row, one_line, visible
from data_pipeline.row_format import Format
from data_pipeline.rows import SUFFIXES, conversation, identifier, number, read_rows, text
from data_pipeline.source_code import classes, entry_function, functions, parse
from data_pipeline.stream_rows import Sample, as_text, stream
from sandbox import EXACT, Rejected, SuiteTest, Task, Tolerance, nodes
from sandbox.classes import DRIVER

_CHECKED = ("given", "output", "expected")
_LIMITS = ("seconds", "memory_mb")
_KEYS = frozenset(
    ("id", "question", "solution", "task", "entry_point", "tests", *_LIMITS, "atol", "rtol", "prompt", "checker")
)
_ALIKE = 0.85  # of a key and the one that it is meant to be: difflib's measure
_FUNCTION = re.compile(r"\bdef[ \t]+(\w+)[ \t]*\((?!\s*(?:self|cls)\b)")
_CLASS = re.compile(r"^[ \t>]*class[ \t]+(\w+)[ \t]*(?:\([^()\n]*\))?:[ \t]*(?:\.\.\.|pass|#.*)?$", re.MULTILINE)
_ASKING = r"\b(?i:implement|write|complete|define|create|design)\s+(?:(?:an?|the|python|function|class|def)\s+)*[`*]*"
_EXAMPLE = r"(?:>>>|\bassert\b)[^\n]*?\b"
_SHOWN = 100  # characters of a test that a reason shows


def write(path: str | Path, problems: Sequence[Problem]) -> None:
    Path(path).write_text("".join(json.dumps(row(problem)) + "\n" for problem in problems))


def row(problem: Problem) -> Row:
    """A problem as a row of `FORMAT`."""
    return {
        "id": problem.id,
        "question": problem.question,
        "solution": problem.solution,
        **_task_fields(problem),
        **{limit: value for limit in _LIMITS if (value := getattr(problem, limit))},
        **({"prompt": json.loads(problem.prompt)} if problem.prompt else {}),
    }


def asked(path: str | Path) -> list[Problem]:
    """The questions of a file, without solutions and tests: of rows, or a text, which is one question.

    Raises ValueError, in one line, for a file that cannot be read as either.
    """
    path = Path(path)
    try:
        if path.name.endswith(SUFFIXES):
            return [_unsolved(row) for row in read_rows(path)]
        return [question(path.stem, path.read_text(encoding="utf-8"))]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not readable as text: {one_line(error)}") from None
    except BadRow as error:
        raise ValueError(f"{path}: {error}") from None


def question(name: str, words: str) -> Problem:
    """A text as a question. One that shows no signature asks for a program that reads standard input.

    Raises BadRow for an empty one, and for one that does not tell which of its signatures it asks for.
    """
    words = words.strip()
    shown = dict.fromkeys(_FUNCTION.findall(words), Task.FUNCTION) | dict.fromkeys(_CLASS.findall(words), Task.CLASS)
    asked = [each for each in shown if each not in nodes.DEFINITIONS] or list(shown)
    if len(asked) > 1:
        told = re.compile(rf"(?:{_ASKING}|{_EXAMPLE})({'|'.join(asked)})\b")
        asked = ["Solution"] if "Solution" in asked else sorted({*told.findall(words)} & {*asked}) or asked
    if len(asked) > 1:
        raise BadRow(f"it shows {' and '.join(asked)}: write in it `Write NAME` of the one that is asked for")
    entry_point = asked[0] if asked else ""
    task = shown.get(entry_point, Task.STREAM)
    return _unsolved({"id": name, "question": words, "task": task, "entry_point": entry_point})


def _unsolved(row: Row | BadRow) -> Problem:
    if isinstance(row, BadRow):
        raise row
    task = _task(row)
    name = "" if task is Task.STREAM else identifier(row, "entry_point")
    if task is Task.FUNCTION and name in classes(str(row.get("solution") or "")):
        task = Task.CLASS
    tolerance = _tolerance(row)
    return Problem(
        id=visible(text(row, "id")),
        question=text(row, "question"),
        solution="",
        entry_point=name,
        task=task,
        atol=tolerance.atol,
        rtol=tolerance.rtol,
        prompt=conversation(row, "prompt"),
        seconds=number(row, "seconds"),
        memory_mb=number(row, "memory_mb"),
    )


def _task_fields(problem: Problem) -> Row:
    """What a row has according to its task. A stream states its tolerance always: its question may name another."""
    tolerance = {"atol": problem.atol, "rtol": problem.rtol}
    if problem.task is Task.STREAM:
        tests = [{"input": test.call, "output": test.stated} for test in read_golden_tests(problem)]
        checker = {"checker": problem.checker} if problem.checker else {}
        return {"task": Task.STREAM, "tests": tests, **tolerance, **checker}
    written = plain_golden_tests(problem) if problem.task is Task.CLASS else problem.golden_tests
    tests = {"entry_point": problem.entry_point, "tests": written}
    return tests | (tolerance if problem.atol or problem.rtol else {})


def _task(row: Row) -> Task:
    reads_input = any(isinstance(test, dict) and "input" in test for test in _given_tests(row))
    shown = Task.STREAM if reads_input and not row.get("entry_point") else Task.FUNCTION
    task = shown if row.get("task") is None else row["task"]
    if task not in tuple(Task):
        raise BadRow(f"task is {task!r}; known tasks: {', '.join(Task)}")
    if task == Task.STREAM and row.get("entry_point"):
        raise BadRow("a program that reads standard input (task stream) has no entry_point")
    if task != Task.STREAM and not row.get("entry_point"):
        raise BadRow("no entry_point, which a function needs; tests {input, output} would make it a program")
    return Task(task)


def _check_spelling(row: Row) -> None:
    """Raises BadRow for a key that is all but one that is missing. Other keys are the user's own."""
    missing = _KEYS - row.keys()
    for key in row.keys() - _KEYS:
        if near := get_close_matches(key, missing, 1, _ALIKE):
            raise BadRow(f"unknown key {key}; did you mean {near[0]}?")


def _problem(row: Row, name: str) -> Problem:
    _check_spelling(row)
    solution = text(row, "solution")
    task, tests = _tests(row)
    problem = replace(_unsolved(row), solution=solution, task=task, source="problems")
    if task is Task.STREAM:
        parse(solution, "the solution")
        samples = [test for test in tests if isinstance(test, tuple)]
        read = stream(name, problem.question, solution, samples, problem.source)
        stated = problem if "atol" in row or "rtol" in row else read
        golden, checker = read.golden_tests, _checker(row)
        return replace(problem, golden_tests=golden, atol=stated.atol, rtol=stated.rtol, checker=checker)
    if task is Task.FUNCTION:
        entry_function(solution, problem.entry_point)
    return replace(problem, golden_tests=tuple(golden_line(test) for test in tests if isinstance(test, SuiteTest)))


def _tests(row: Row) -> tuple[Task, list[Sample | SuiteTest | Rejected]]:
    """What the row's solution is, and its tests, or why one is left out; the question's tolerance is the default."""
    task, tolerance = _task(row), _tolerance(row)
    if task is Task.STREAM:
        return task, [_read(_sample, item) for item in _given_tests(row)]
    entry_point = identifier(row, "entry_point")
    is_class = entry_point in classes(text(row, "solution"))
    read = partial(_test_of_class if is_class else _test, entry_point=entry_point, tolerance=tolerance)
    return Task.CLASS if is_class else Task.FUNCTION, [_read(read, item) for item in _given_tests(row)]


def _read(read: Callable[[object], Sample | SuiteTest], item: object) -> Sample | SuiteTest | Rejected:
    try:
        return read(item)
    except BadRow as error:
        shown = repr(item if isinstance(item, str) else json.dumps(item, default=str))[:_SHOWN]
        return Rejected(f"the test {shown} is left out: {error}")


def _checker(row: Row) -> str:
    if row.get("checker") is None:
        return ""
    checker = text(row, "checker")
    check = functions(checker, "the checker").get("check")
    if check is None or len(check.args.args) != len(_CHECKED):
        raise BadRow(f"the checker defines no check({', '.join(_CHECKED)})")
    return checker


def _sample(item: object) -> Sample:
    fields = item if isinstance(item, dict) else {}
    return as_text(fields.get("input"), "input"), as_text(fields.get("output"), "output")


def _dropped(row: Row) -> tuple[str, ...]:
    return tuple(test.reason for test in _tests(row)[1] if isinstance(test, Rejected))


def _given_tests(row: Row) -> list[object]:
    given = row.get("tests")
    if given is not None and not isinstance(given, list):
        raise BadRow("tests is not a list")
    return given or []


def _test(item: object, entry_point: str, tolerance: Tolerance) -> SuiteTest:
    """A test, given as a line or as an object `{"test": LINE, "atol": ..., "rtol": ...}`."""
    fields = item if isinstance(item, dict) else {"test": item}
    statements = parse(text(fields, "test"), "it").body
    own = _tolerance(fields)
    test = read_golden_test(statements[0], entry_point) if len(statements) == 1 else Rejected("not one statement")
    if isinstance(test, Rejected):
        raise BadRow(f"it is outside the language of tests: {test.reason}")
    return replace(test, tolerance=next((each for each in (own, test.tolerance) if each != EXACT), tolerance))


def _test_of_class(item: object, entry_point: str, tolerance: Tolerance) -> SuiteTest:
    lines = golden_tests_of_class(f"def test():\n{indent(text({'test': item}, 'test'), '    ')}", entry_point)
    if len(lines) != 1:
        found = f"{len(lines)} asserts on an object of {entry_point} that can be read, where a test has one"
        raise BadRow(f"it has {found}")
    test = read_golden_test(parse(lines[0], "it").body[0], DRIVER)
    if isinstance(test, Rejected):
        raise BadRow(test.reason)
    return replace(test, tolerance=tolerance)


def _tolerance(fields: Row) -> Tolerance:
    try:
        return Tolerance(number(fields, "atol"), number(fields, "rtol"))
    except ValueError as error:
        raise BadRow(str(error)) from None


FORMAT = Format("problems", frozenset({"id", "question", "solution"}), lambda row: text(row, "id"), _problem, _dropped)
