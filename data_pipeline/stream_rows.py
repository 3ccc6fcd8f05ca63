"""What the readers of streams share: problems whose solution is a program that reads standard input.

Training sets keep a part of their tests. Up to `MOST_TESTS` that are no longer than `LONGEST_TEST` are as many as a
solution can pass within its limits, and thousands of problems with them fit in memory. Longer tests measure speed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from data_pipeline.golden import golden_line, read_golden_test, stream_line
from data_pipeline.problem import BadRow, Problem, Row
from data_pipeline.rows import text
from data_pipeline.source_code import classes, entry_function, parse, with_declaration
from data_pipeline.statements import stated_tolerance, why_not_compared
from sandbox import SuiteTest, Task
from sandbox.classes import DRIVER

MOST_TESTS = 32
LONGEST_TEST = 1 << 14
"""Characters of a test's line, with input and output."""

Sample = tuple[Any, Any]
"""What is put in, and what must come out, as a row has them."""


def stream(name: str, question: str, solution: str, tests: Iterable[Sample], source: str) -> Problem:
    """A problem with all of these tests, and the tolerance that its question states. Raises BadRow for bad tests."""
    lines = [stream_line(as_text(given, "input"), as_text(expected, "output")) for given, expected in tests]
    tolerance = stated_tolerance(question)
    return Problem(
        id=name,
        question=question,
        solution=solution,
        entry_point="",
        golden_tests=tuple(lines),
        source=source,
        atol=tolerance.atol,
        rtol=tolerance.rtol,
        task=Task.STREAM,
    )


def to_train_on(problem: Problem) -> Problem:
    """The problem with its first tests that are not too long. Raises BadRow if its tests would not judge fairly."""
    if problem.task is Task.STREAM and (reason := why_not_compared(problem.question)):
        raise BadRow(reason)
    short = [line for line in dict.fromkeys(tested(problem).golden_tests) if len(line) <= LONGEST_TEST]
    if not short:
        raise BadRow(f"all of its tests are longer than {LONGEST_TEST} characters")
    return replace(problem, golden_tests=tuple(short[:MOST_TESTS]))


def tested(problem: Problem) -> Problem:
    """The problem itself. Raises BadRow if it has no tests."""
    if not problem.golden_tests:
        raise BadRow("it has no tests")
    return problem


def of_inputs_and_outputs(name: str, question: str, solution: str, tests: Row, source: str) -> Problem:
    """A problem of {inputs, outputs, fn_name?}: with fn_name, inputs are lists of arguments. Raises BadRow."""
    samples = pairs(tests.get("inputs"), tests.get("outputs"))
    if not tests.get("fn_name"):
        return stream(name, question, solution, samples, source)
    function = text(tests, "fn_name")
    solver = classes(solution).get("Solution")
    return Problem(
        id=name,
        question=with_declaration(question, solver or entry_function(solution, function)),
        solution=solution,
        entry_point="Solution" if solver else function,
        golden_tests=tuple(_calls(function, _unwrapped(samples), of_method=solver is not None)),
        source=source,
        task=Task.CLASS if solver else Task.FUNCTION,
    )


def _unwrapped(samples: Sequence[Sample]) -> list[Sample]:
    """Where every output is a list of one item, that item is what must be returned."""
    wrapped = all(isinstance(output, list) and len(output) == 1 for _, output in samples)
    return [(arguments, output[0] if wrapped else output) for arguments, output in samples]


def _calls(function: str, samples: Iterable[Sample], *, of_method: bool) -> Iterator[str]:
    """The golden tests of a function, or of a method of `Solution`, from lists of arguments and what is returned.

    Raises BadRow for an input that is not a list.
    """
    name = DRIVER if of_method else function
    for arguments, value in samples:
        if not isinstance(arguments, list):
            raise BadRow("an input of a function is not a list of arguments")
        given = f"(), [({function!r}, {tuple(arguments)!r})]" if of_method else ", ".join(map(repr, arguments))
        test = read_golden_test(parse(f"assert {name}({given}) == {value!r}", "a test").body[0], name)
        if isinstance(test, SuiteTest):
            yield golden_line(test)


def pairs(inputs: object, outputs: object) -> list[Sample]:
    """Each input with its output. Raises BadRow if these are not lists of one length; both missing is none."""
    inputs, outputs = ([] if each is None else each for each in (inputs, outputs))
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise BadRow("inputs and outputs of tests are not lists of one length")
    return list(zip(inputs, outputs, strict=True))


def of_standard_input(tests: Sequence[Row]) -> list[Sample]:
    """Tests {input, output} whose `type` or `testtype` is standard input's. Raises BadRow for others."""
    for kind in (test.get("type", test.get("testtype")) for test in tests):
        if kind not in ("stdin", "stdin_stdout"):
            raise BadRow(f"its tests are of type {kind}, not of standard input")
    return [(test.get("input"), test.get("output")) for test in tests]


def as_text(value: object, what: str) -> str:
    """An input or an output: a text, a number, or a list of its lines. Raises BadRow for anything else."""
    if isinstance(value, str):
        return value
    if value is None:
        raise BadRow(f"no {what}")
    lines = value if isinstance(value, list) else [value]
    for line in lines:
        if not isinstance(line, str | int | float | Decimal):
            raise BadRow(f"{what} is of type {type(line).__name__}, not text")
    return "\n".join(str(line).rstrip("\r\n") for line in lines)


def first_parsing(programs: Sequence[str]) -> str:
    """The first of these programs that is Python 3; "" of none. Raises BadRow if none of them is."""
    reason = ""
    for program in programs:
        try:
            parse(program, "the solution")
        except BadRow as error:
            reason = reason or str(error)
        else:
            return program
    if programs:
        raise BadRow(f"no solution of {len(programs)} is Python 3: {reason}")
    return ""
