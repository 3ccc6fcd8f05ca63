"""SandboxFusion's POST /submit: a response to a problem, whose row comes with the request (`config.provided_data`).

Judged as by SandboxFusion, except that a program cannot forge it: expected outputs stay in this process, and a
problem's asserts or check run in a process that the program is not in.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from data_pipeline.golden import read_golden_tests
from data_pipeline.imports import runnable
from data_pipeline.problem import Row
from data_pipeline.problem_files import FORMAT
from data_pipeline.responses import code_blocks, last_program, program_in
from data_pipeline.source_code import function_under_test, parse
from data_pipeline.verdicts import allowed, tolerance_of
from sandbox import (
    CheckJob,
    CheckResult,
    Job,
    JudgeJob,
    Limits,
    Request,
    ScriptJob,
    Status,
    Test,
    encode_stated,
    verdict_on,
)
from sandbox.remote import wire
from sandbox.remote.run_code import answer_of, as_object, as_python, limits_of, response

_SECONDS = 20.0  # SandboxFusion's own default
_CLOSE = 1e-5  # how far apart two floats may be, relative to the expected one
_LEAST = 1e-10  # of which it is taken at least
_MOST_SHOWN = 1 << 19  # characters that the runs of an answer printed; what comes after is judged and not shown
_MOST_COMPLETION = 1 << 20  # characters
_MOST_CODE = 1 << 20  # characters of a check, or of a row of ours, which is parsed here
_MOST_TEXT = 1 << 16  # characters of the question and the solution of a row of ours, which are remembered
_MOST_TESTS = 1_000  # of a row of ours

Cases = Generator[Request[Any], Any, list[dict[str, Any]]]


def submit(document: Any, own: Limits) -> Generator[Request[Any], Any, dict[str, Any]]:
    """Judges a completion, and answers with an EvalResult. Raises ValueError."""
    fields = as_object(document, "the request")
    config = as_object(fields.get("config"), "config")
    as_python({"language": config.get("language") or "python"})
    if config.get("custom_extract_logic"):
        raise ValueError("custom_extract_logic is not supported here")
    extra = as_object(config.get("extra") or {}, "config.extra")
    row = as_object(config.get("provided_data"), "config.provided_data, the problem's row, which is not kept here,")
    if row.get("checker"):
        raise ValueError("a row with a checker is not judged here: ask Judge, or codea1 eval code")
    completion = fields.get("completion")
    if not isinstance(completion, str) or len(completion) > _MOST_COMPLETION:
        raise ValueError(f"completion must be a text of at most {_MOST_COMPLETION} characters")
    limits = limits_of(config, own, _SECONDS)
    if FORMAT.fits(row) and row.get("entry_point") and isinstance(row.get("tests"), list):
        timed = limits if config.get("run_timeout") else replace(own, memory_mb=limits.memory_mb)
        program, cases = yield from _by_problem(row, completion, timed)
    elif isinstance(test := _test_of(row), str):
        name, check = _check_of(row, test)
        program = _program_in(completion, row, name)
        # Checks that patch modules, as BigCodeBench's do, run next to the program.
        result = yield CheckJob(program, check, name, limits, in_process="unittest" in check)
        cases = [_checked(result)]
    else:
        program = last_program(completion)
        cases = yield from _runs(test, program, limits, bool(extra.get("run_all_cases")))
    accepted = all(case["passed"] for case in cases)
    return {"id": fields.get("id"), "accepted": accepted, "extracted_code": program.removesuffix("\n"), "tests": cases}


def _by_problem(row: Row, completion: str, limits: Limits) -> Generator[Request[Any], Any, tuple[str, Any]]:
    """A function or class of our own format: its program, and a case for each test, judged as they are everywhere."""
    if len(f"{row['question']}{row['solution']}") > _MOST_TEXT:
        raise ValueError(f"the row's question and solution may have {_MOST_TEXT} characters")
    if len(f"{row}") > _MOST_CODE or max(len(row), len(row["tests"])) > _MOST_TESTS:
        raise ValueError(f"the row may have {_MOST_CODE} characters and {_MOST_TESTS} tests")
    read = FORMAT.read([row | {"id": str(row["id"])}])
    for refusal in (*read.refused, *read.dropped):
        raise ValueError(refusal.reason)
    (problem,) = read.problems
    suite, limits = read_golden_tests(problem), allowed(problem, limits)
    values = {test.stated: encode_stated(test.stated, problem.task) for test in suite}
    if computed := tuple(stated for stated, value in values.items() if value is None):
        found = yield Job("", computed, limits)
        values |= {stated: outcome.value for stated, outcome in zip(computed, found.outcomes, strict=True)}
    if not suite or None in values.values():
        raise ValueError("a test states no value" if suite else "the row has no tests")
    tests = [Test(test.call, values[test.stated] or "", tolerance=tolerance_of(problem, test)) for test in suite]
    program = program_in(completion, problem.entry_point)
    job = JudgeJob(runnable(program, problem), tuple(tests), limits, problem.called, problem.task)
    execution = job.execution()
    ran = yield execution
    by_call = dict(zip(execution.calls, ran.outcomes, strict=True))
    results = [CheckResult(ran.loaded, verdict_on(by_call[test.call], test), ran.cpu_seconds) for test in tests]
    return program, [_checked(result) for result in results]


def _test_of(row: dict[str, Any]) -> str | list[tuple[str, str]]:
    test = row.get("test_list") or row.get("tests") or row.get("test")  # `tests` of our own rows
    if isinstance(test, dict):
        if test.get("asset") not in (None, "", "{}", {}):
            raise ValueError("a test with assets is not supported here")
        test = str(test.get("code")).replace("#<INSERT>", "")
    if isinstance(test, list) and all(isinstance(line, str) for line in test):
        test = "\n".join(test)
    if isinstance(test, str) and test.lstrip().startswith("[{"):
        test = wire.parsed(test)
    if isinstance(test, list):
        return [_sample(case) for case in test]
    if not isinstance(test, str) or not 0 < len(test) <= _MOST_CODE:
        raise ValueError(f"the row's test must be a list of cases, or code of at most {_MOST_CODE} characters")
    return test


def _sample(case: Any) -> tuple[str, str]:
    given, expected = (as_object(case, "a case").get(name) for name in ("input", "output"))
    if not isinstance(given, str) or not isinstance(expected, str):
        given = as_object(given, "a case's input").get("stdin")
        expected = as_object(expected, "a case's output").get("stdout")
    if not isinstance(given, str) or not isinstance(expected, str):
        raise ValueError("a case needs the texts input.stdin and output.stdout")
    return given, expected


def _check_of(row: Mapping[str, Any], check: str) -> tuple[str, str]:
    labels = row.get("labels") or {"entry_point": row.get("entry_point")}
    labels = as_object(wire.parsed(labels) if isinstance(labels, str) else labels, "the row's labels")
    called = function_under_test(parse(check, "the test").body)  # one that does not parse is the client's fault
    name = labels.get("entry_point") or called
    if not isinstance(name, str):
        raise ValueError("neither the test nor labels.entry_point tells which function is meant")
    return name, f"{labels.get('test_setup_code') or ''}\n{check}"


def _program_in(completion: str, row: Mapping[str, Any], name: str) -> str:
    """As everywhere (`data_pipeline.responses`); a text without blocks that lacks the function follows the question."""
    continues = f"def {name}" not in completion and not code_blocks(completion)
    return f"{row.get('content') or row.get('question')}\n{completion}" if continues else program_in(completion, name)


def _runs(samples: list[tuple[str, str]], program: str, limits: Limits, runs_all: bool) -> Cases:
    cases: list[dict[str, Any]] = []
    room = _MOST_SHOWN
    for given, expected in samples:
        ran = yield ScriptJob(program, given, limits)
        passed = ran.exit_code == 0 and _is_right(ran.stdout, expected)
        shown = replace(ran, stdout=ran.stdout[:room], stderr=ran.stderr[:room])
        room = max(0, room - len(ran.stdout) - len(ran.stderr))
        cases.append(_case(passed, answer_of(shown)))
        if not passed and not runs_all:
            break
    return cases


def _checked(result: CheckResult) -> dict[str, Any]:
    late = result.verdict.status is Status.TIMED_OUT
    verdict = result.verdict
    words = "" if result.passed else f"{verdict.status}: {verdict.detail or f'the call returned {verdict.value}'}"
    ended = ("TimeLimitExceeded", None) if late else ("Finished", int(not result.passed))
    return _case(result.passed, response(*ended, "", words, result.cpu_seconds))


def _case(passed: bool, run: Mapping[str, Any]) -> dict[str, Any]:
    return {"passed": passed, "exec_info": run, "test_info": None}


def _is_right(printed: str, expected: str) -> bool:
    """Line by line, whatever the case and the blanks at their ends; a line that is a float up to 5 digits.

    Whole numbers are compared exactly. (SandboxFusion accepts 1000001 for 1000000.)
    """
    lines, right = (text.strip().split("\n") for text in (printed, expected))
    return len(lines) == len(right) and all(map(_is_same, lines, right))


def _is_same(printed: str, expected: str) -> bool:
    if printed.strip().lower() == expected.strip().lower():
        return True
    try:
        a, b = float(printed), float(expected)
        if a.is_integer() and b.is_integer():
            return Decimal(printed) == Decimal(expected)
    except (ValueError, ArithmeticError):  # a Decimal may have no such exponent
        return False
    return abs(a - b) < _CLOSE * max(abs(b), _LEAST)
