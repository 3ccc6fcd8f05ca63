"""From a problem and a program to verdicts: one way, which `Judge`, training, evaluations and `data validate` share."""

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from data_pipeline.golden import read_golden_tests
from data_pipeline.imports import runnable
from data_pipeline.problem import Problem
from sandbox import (
    EXACT,
    CheckJob,
    Job,
    Judge,
    JudgeJob,
    Limits,
    Outcome,
    Status,
    SuiteTest,
    Test,
    Tolerance,
    Verdicts,
    checkers,
    encode_stated,
    then,
)

SLOWER = 2.0  # how many of our seconds stand for one of a problem's, which has fast machines in mind
_BESIDE = {"bigcodebench"}  # whose checks patch modules and look at real objects


def allowed(problem: Problem, limits: Limits) -> Limits:
    """The limits of a program that solves the problem: its own time and memory, where it states more than they have."""
    return replace(
        limits,
        call_seconds=max(limits.call_seconds, SLOWER * problem.seconds),
        memory_mb=max(limits.memory_mb, math.ceil(problem.memory_mb)),
    )


def time_for(limits: Limits, calls: int) -> Limits:
    """The limits with time for loading the program and for each of the calls: one slow test must not cost another."""
    seconds = (calls + 1) * (limits.load_seconds + limits.call_seconds)
    return replace(limits, program_seconds=max(limits.program_seconds, seconds))


def submit_program(
    judge: Judge, problem: Problem, program: str, tests: Sequence[Test] | None, limits: Limits | None = None
) -> Future[Verdicts]:
    """The verdicts on a program by `tests`, in order; by the problem's own check, as one test, where they are None."""
    text, limits = runnable(program, problem), allowed(problem, limits or judge.limits)
    if tests is not None:
        return judge.submit_judge(JudgeJob(text, tuple(tests), limits, problem.called, problem.task, problem.checker))
    check = CheckJob(text, problem.check, problem.called, limits, problem.source in _BESIDE)
    return then(judge.submit(check), lambda result: Verdicts(result.loaded, (result.verdict,), result.cpu_seconds))


class StatedAnswers:
    """The canonical values of a problem's stated answers: literals are read, other expressions computed in a jail."""

    def __init__(self, judge: Judge, problem: Problem, expressions: Iterable[str]) -> None:
        checked = bool(problem.checker)
        self._values = {each: encode_stated(each, problem.task, as_printed=checked) for each in expressions}
        self._computed = tuple(expression for expression, value in self._values.items() if value is None)
        limits = time_for(judge.limits, len(self._computed))
        self._pending = judge.submit(Job("", self._computed, limits)) if self._computed else None

    def result(self) -> Mapping[str, str | None]:
        """The value of each expression; None where it is not plain data."""
        if self._pending is None:
            return self._values
        outcomes = self._pending.result().outcomes
        return self._values | {e: outcome.value for e, outcome in zip(self._computed, outcomes, strict=True)}


def own_tests(judge: Judge, problem: Problem) -> tuple[Test, ...] | None:
    """What `submit_program` judges a problem's programs by: its golden tests, or None for its own check.

    Raises ValueError for a golden test whose answer has no value.
    """
    if problem.check:
        return None
    tests = golden_tests(judge, problem)
    known = {test.call for test in tests}
    if none := next((test.stated for test in read_golden_tests(problem) if test.call not in known), None):
        raise ValueError(f"{none} states no value")
    return tests


def golden_tests(judge: Judge, problem: Problem) -> tuple[Test, ...]:
    """A problem's golden tests with their answers as plain data; one whose answer is not is left out."""
    suite = read_golden_tests(problem)
    values = StatedAnswers(judge, problem, [test.stated for test in suite]).result()
    answered = [(test, value) for test in suite if (value := values[test.stated]) is not None]
    return tuple(Test(test.call, value, tolerance=tolerance_of(problem, test)) for test, value in answered)


def tolerance_of(problem: Problem, test: SuiteTest) -> Tolerance:
    """The test's own, else the problem's."""
    return problem.tolerance if test.tolerance == EXACT else test.tolerance


def stated_or_expected(
    judge: Judge, problem: Problem, tests: Sequence[SuiteTest], stated: Sequence[str | None], known: Sequence[Outcome]
) -> list[str | None]:
    """The stated answers of tests; in place of those that the problem's checker accepts, what the reference gives.

    None where the checker, with half of everything, does not accept that: it is not made for such an input.
    """
    if not problem.checker:
        return list(stated)
    values, half = [outcome.value for outcome in known], judge.limits.halved()
    own = [
        checkers.question(problem.checker, t.call, v or "", v or "", half) for t, v in zip(tests, values, strict=True)
    ]
    accepted = [result.passed for result in judge.execute(own)]
    answers = [Outcome(Status.RETURNED, s if is_right else None) for s, is_right in zip(stated, accepted, strict=True)]
    asked = [*zip((test.call for test in tests), answers, values, strict=True)]
    return [outcome.value for outcome in judge.checked(problem.checker, asked)]
