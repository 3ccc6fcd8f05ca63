"""Runs every solution against its own golden tests, in the sandbox.

A solution gets half of the limits of the programs that its answers will judge. It must also give the same answers when
asked again, because its answer to a call is cached. A problem without a solution is refused unrun.
"""

from collections.abc import Sequence
from dataclasses import replace

from data_pipeline.checking import stated_or_expected
from data_pipeline.golden import read_golden_tests
from data_pipeline.problem import Problem
from sandbox import EXACT, FEW_ULPS, Execution, Job, Judge, Limits, Outcome, Status, SuiteTest, encode_stated

NO_SOLUTION = "it has no solution: it can only be evaluated on"
SLOWER = 2.0  # how many of our seconds stand for one of a problem's, which has fast machines in mind


def allowed(problem: Problem, limits: Limits) -> Limits:
    """The limits of a program that solves the problem: its own time for a test, where it states more than they do."""
    return replace(limits, call_seconds=max(limits.call_seconds, SLOWER * problem.seconds))


def failures(problems: Sequence[Problem], judge: Judge) -> list[str | None]:
    """For each problem, why its solution cannot be trusted, or None.

    Raises sandbox.SandboxError if the sandbox itself fails.
    """
    found = iter(_failures([problem for problem in problems if problem.solution], judge))
    return [next(found) if problem.solution else NO_SOLUTION for problem in problems]


def _failures(problems: Sequence[Problem], judge: Judge) -> list[str | None]:
    suites = [read_golden_tests(problem) for problem in problems]
    jobs = [
        Job(
            problem.driven(problem.solution),
            tuple(test.call for test in suite),
            allowed(problem, judge.limits).halved(),
            problem.called,
            task=problem.task,
        )
        for problem, suite in zip(problems, suites, strict=True)
    ]
    backwards = [replace(job, calls=job.calls[::-1]) for job in jobs]
    executions = judge.execute([*jobs, *backwards])
    stated = [
        stated_or_expected(judge, problem, suite, values, execution.outcomes)
        for problem, suite, values, execution in zip(
            problems, suites, _stated_values(problems, suites, judge), executions, strict=False
        )
    ]
    cases = zip(suites, executions[: len(jobs)], executions[len(jobs) :], stated, strict=True)
    return [
        _failure(suite, solved, values) or _instability(suite, solved, again) for suite, solved, again, values in cases
    ]


def _stated_values(
    problems: Sequence[Problem], suites: Sequence[Sequence[SuiteTest]], judge: Judge
) -> list[list[str | None]]:
    """The canonical values of the stated answers; those that are not literals are evaluated in a separate process."""
    literals = [
        [encode_stated(test.stated, problem.task) for test in suite]
        for problem, suite in zip(problems, suites, strict=True)
    ]
    jobs = [
        Job("", tuple(test.stated for test, value in zip(suite, values, strict=True) if value is None))
        for suite, values in zip(suites, literals, strict=True)
    ]
    evaluated = [iter(execution.outcomes) for execution in judge.execute(jobs)]
    return [
        [next(outcomes).value if value is None else value for value in values]
        for values, outcomes in zip(literals, evaluated, strict=True)
    ]


def _failure(suite: Sequence[SuiteTest], execution: Execution, stated: Sequence[str | None]) -> str | None:
    if not execution.valid:
        return f"the solution does not execute: {_describe(execution.loaded)}"
    failed = [
        f"{_shown(test)} {_describe(outcome)}{', not' if outcome.value is not None else '; expected'} {_expected(test)}"
        for test, outcome, value in zip(suite, execution.outcomes, stated, strict=True)
        if outcome.value is None or value is None or not test.tolerance.same(outcome.value, value)
    ]
    if not failed:
        return None
    return f"the solution fails tests ({len(failed)} of {len(suite)}): {failed[0]}"


def _instability(suite: Sequence[SuiteTest], execution: Execution, backwards: Execution) -> str | None:
    """Why the solution is unreliable: another process, given the calls in reverse, answered differently."""
    for test, first, second in zip(suite, execution.outcomes, reversed(backwards.outcomes), strict=True):
        if first != second:
            answered = f"{_shown(test)} {_describe(second)} when asked again"
            return f"the solution does not answer the same each time: {answered}"
    return None


def _shown(test: SuiteTest) -> str:
    return repr(test.call) if "\n" in test.call else test.call


def _expected(test: SuiteTest) -> str:
    tolerance = test.tolerance
    within = "" if tolerance in (EXACT, FEW_ULPS) else f" within atol={tolerance.atol:g}, rtol={tolerance.rtol:g}"
    return test.stated + within


def _describe(outcome: Outcome) -> str:
    if outcome.value is not None:
        return f"gave {outcome.value}"
    if outcome.status == Status.RAISED or not outcome.detail:
        return f"{outcome.status} {outcome.detail}".strip()
    return f"{outcome.status} ({outcome.detail})"
