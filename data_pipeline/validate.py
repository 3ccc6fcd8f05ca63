"""Runs every solution against its own golden tests, and its own check, in the sandbox.

On golden tests it gets half of the limits of the programs that its answers will judge. It must also give the same
answers when asked again, because its answer to a call is cached. A problem without a solution is refused unrun.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from data_pipeline.golden import read_golden_tests
from data_pipeline.imports import runnable
from data_pipeline.problem import Problem
from data_pipeline.verdicts import StatedAnswers, allowed, submit_program, tolerance_of
from sandbox import (
    EXACT,
    FEW_ULPS,
    Execution,
    Job,
    Judge,
    Limits,
    Outcome,
    Status,
    SuiteTest,
    Task,
    Verdict,
    Verdicts,
    checkers,
    classes,
)
from sandbox.streams import text_of

LONGEST_CHECK = 60.0  # seconds of CPU time, as evalplus allows for one sample
MEMORY_MB = 4096  # as evalplus allows
PATIENT = Limits(memory_mb=MEMORY_MB).lasting(LONGEST_CHECK)  # for a solution and its check
NEEDS = "needs "
NO_SOLUTION = "it has no solution: it can only be evaluated on"
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
_WRONG = ("", "?")  # outputs of which no checker accepts both


def failures(problems: Sequence[Problem], judge: Judge) -> list[str | None]:
    """Why each problem's solution or checker cannot be trusted, or None. Raises SandboxError if the judge fails."""
    solved = [problem for problem in problems if problem.solution]
    checks = {p: submit_program(judge, p, p.solution, None, PATIENT) for p in solved if p.check}
    tested = [problem for problem in solved if problem.golden_tests or problem not in checks]
    found = dict(zip(tested, _failures(tested, judge), strict=True))
    found |= {problem: found.get(problem) or failed_check(check.result()) for problem, check in checks.items()}
    return [found.get(problem, NO_SOLUTION) for problem in problems]


def failed_check(verdicts: Verdicts) -> str | None:
    """Why a solution does not pass its own check, or None."""
    if verdicts.passed:
        return None
    failed = first_failure(verdicts)
    reason = f"{failed.status}: {failed.detail}".removesuffix(": ")
    if module := _MISSING.search(reason):
        return f"{NEEDS}{module[1]}, which the judge's Python lacks"
    return f"its own solution fails its own check ({reason})"


def first_failure(verdicts: Verdicts) -> Verdict:
    return next((verdict for verdict in verdicts.tests if not verdict.passed), Verdict(Status.PASSED))


def _failures(problems: Sequence[Problem], judge: Judge) -> list[str | None]:
    suites = [read_golden_tests(problem) for problem in problems]
    jobs = [
        Job(
            runnable(problem.solution, problem),
            tuple(test.call for test in suite),
            allowed(problem, judge.limits).halved(),
            problem.called,
            task=problem.task,
            as_printed=bool(problem.checker),
        )
        for problem, suite in zip(problems, suites, strict=True)
    ]
    backwards = [replace(job, calls=job.calls[::-1]) for job in jobs]
    pending = [
        StatedAnswers(judge, p, [test.stated for test in suite]) for p, suite in zip(problems, suites, strict=True)
    ]
    executions = judge.execute([*jobs, *backwards])
    cases = zip(problems, suites, pending, executions[: len(jobs)], executions[len(jobs) :], strict=True)
    return [_failure_of(judge, *case) for case in cases]


def _failure_of(
    judge: Judge,
    problem: Problem,
    suite: Sequence[SuiteTest],
    pending: StatedAnswers,
    solved: Execution,
    again: Execution,
) -> str | None:
    answers = pending.result()
    stated = [(test.call, answers[test.stated]) for test in suite]
    if fault := checker_fault(judge, problem, stated):
        return fault
    if not solved.valid:
        return f"the solution does not execute: {_describe(problem, solved.loaded)}"
    asked = [(call, outcome, value) for (call, value), outcome in zip(stated, solved.outcomes, strict=True)]
    checked = zip(suite, judge.checked(problem.checker, asked), stated, strict=True)
    failed = [
        f"{_shown(problem, test)} {_describe(problem, outcome)}"
        f"{', not' if outcome.value is not None else '; expected'} {_expected(problem, test)}"
        for test, outcome, (_, value) in checked
        if outcome.value is None or value is None or not tolerance_of(problem, test).same(outcome.value, value)
    ]
    if failed:
        bare = re.search(r"'list' object has no attribute '(next|left|right)'", failed[0])
        kind = ("ListNode" if bare[1] == "next" else "TreeNode") if bare else ""
        hint = f"; annotate the parameter that takes it as {kind}" if kind else ""
        return f"the solution fails tests ({len(failed)} of {len(suite)}): {failed[0]}{hint}"
    for test, first, second in zip(suite, solved.outcomes, reversed(again.outcomes), strict=True):
        if first != second:
            answered = f"{_shown(problem, test)} {_describe(problem, second)} when asked again"
            return f"the solution does not answer the same each time: {answered}"
    return None


def checker_fault(
    judge: Judge, problem: Problem, stated: Sequence[tuple[str, str | None]], *, may_reject: bool = False
) -> str | None:
    """Why a problem's checker cannot be trusted: it must accept each stated output, and not all that is wrong.

    stated: (input, canonical text of the output). may_reject: it need only give an answer to each.
    """
    if not problem.checker or not stated:
        return None

    own = [(given, output or "") for given, output in stated]
    asked = [*((given, output, output) for given, output in own), *((own[0][0], wrong, own[0][1]) for wrong in _WRONG)]
    *results, empty, unknown = judge.execute([checkers.question(problem.checker, *each) for each in asked])
    for (given, _), result in zip(own, results, strict=True):
        did = checkers.fault(result) or ("" if result.passed or may_reject else "rejects it")
        if did:
            return f"the checker cannot judge the stated output of {given!r:.80}: it {did}"
    if empty.passed and unknown.passed:
        return "the checker accepts every output, an empty one and '?' too"
    return None


def _shown(problem: Problem, test: SuiteTest) -> str:
    if problem.task is Task.CLASS:
        return "; ".join(classes.called(test.call, problem.entry_point).splitlines())
    return repr(test.call) if problem.task is Task.STREAM else test.call


def _expected(problem: Problem, test: SuiteTest) -> str:
    tolerance = test.tolerance
    within = "" if tolerance in (EXACT, FEW_ULPS) else f" within atol={tolerance.atol:g}, rtol={tolerance.rtol:g}"
    return (repr(test.stated) if problem.task is Task.STREAM else test.stated) + within


def _describe(problem: Problem, outcome: Outcome) -> str:
    if outcome.value is not None:
        return f"gave {repr(text_of(outcome.value)) if problem.task is Task.STREAM else outcome.value}"
    if outcome.status == Status.RAISED or not outcome.detail:
        return f"{outcome.status} {outcome.detail}".strip()
    return f"{outcome.status} ({outcome.detail})"
