"""What the judge is asked about one question, and what it answers.

First the reference and the stated answers, which decide what each suite's tests are worth; then every program, on the
tests that were kept. Reference, programs and stated answers each run in their own processes; a program's process is
given calls, never an expected value. Verdicts are comparisons made here.

No suite can change what another's tests are worth: each has its own time for its calls of the reference and one
for its stated answers, and the programs have time for all calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TypeVar

from codea1_jax.game.disclosed import is_allowed
from codea1_jax.game.parsing import Suite
from codea1_jax.game.rollouts import Candidate
from codea1_jax.game.validation import Repeats, ValidatedSuite, validate_suite
from codea1_jax.hosts.agreement import in_thread
from data_pipeline import Problem
from data_pipeline.imports import with_imports
from sandbox import Execution, Job, Judge, Limits, Outcome, Status, Test, encode_literal

T = TypeVar("T")


@dataclass(frozen=True)
class ProgramOutcomes:
    """What one program did: whether it executed, and what each call gave, by the call's text."""

    valid: bool
    by_call: Mapping[str, Outcome]


@dataclass(frozen=True)
class PendingOutcomes:
    """Calls of one program that the judge is working on."""

    calls: tuple[str, ...]
    execution: Future[Execution]

    def result(self) -> ProgramOutcomes:
        """Waits for the outcomes. Raises SandboxError if the judge fails: an outage is never a verdict."""
        execution = self.execution.result()
        return ProgramOutcomes(execution.valid, dict(zip(self.calls, execution.outcomes, strict=True)))


def submit_calls(
    judge: Judge, program: str, calls: Iterable[str], entry_point: str, *, is_reference: bool = False
) -> PendingOutcomes:
    """Submits a program and the calls to evaluate, each distinct one once.

    The program's budget is the time of loading and of one call for every call: one slow test must not cost another.
    """
    distinct = tuple(dict.fromkeys(calls))
    seconds = max(judge.limits.program_seconds, _seconds(judge.limits, len(distinct) + 1))
    limits = replace(judge.limits, program_seconds=seconds)
    return PendingOutcomes(distinct, judge.submit(Job(program, distinct, limits, entry_point, is_reference)))


def _seconds(limits: Limits, calls: int) -> float:
    """The most CPU seconds that calls can take of a program that is loaded again for each."""
    return calls * (limits.load_seconds + limits.call_seconds)


class StatedAnswers:
    """The canonical values of stated answers: literals are read here, other expressions computed in a jail."""

    def __init__(self, judge: Judge, expressions: Iterable[str]) -> None:
        self._values = {expression: encode_literal(expression) for expression in expressions}
        computed = [expression for expression, value in self._values.items() if value is None]
        self._pending = submit_calls(judge, "", computed, "") if computed else None

    def result(self) -> Mapping[str, str | None]:
        """The value of each expression; None where it is not plain data."""
        if self._pending is None:
            return self._values
        computed = {e: outcome.value for e, outcome in self._pending.result().by_call.items()}
        return self._values | computed


@dataclass(frozen=True)
class Judgement:
    """All answers about one question's group.

    Both are keyed by a candidate's `duplicate_of`; its suites are in the order of sampling.
    """

    suites: Mapping[int, tuple[ValidatedSuite, ...]]
    programs: Mapping[int, ProgramOutcomes]


@dataclass(frozen=True)
class JudgingConfig:
    """How a group is judged.

    suite_size: K; a suite has the time of that many calls. answer_prediction: a test's stated answer counts; else the
    reference fills in every answer. pooled: every program faces the tests of all its siblings. repeats: see
    `validate_suite`.
    """

    suite_size: int
    answer_prediction: bool
    pooled: bool
    repeats: Repeats


class PendingJudgement:
    """A question on its way through the judge, followed by its own thread, which mostly waits."""

    def __init__(
        self,
        judge: Judge,
        problem: Problem,
        group: Sequence[Candidate],
        book: Sequence[Test],
        config: JudgingConfig,
    ) -> None:
        def judged() -> tuple[Judgement, float]:
            return judge_group(judge, problem, group, book, config), time.perf_counter()

        self._judged = in_thread(judged, name="judgement")

    def result(self) -> Judgement:
        """Waits for the last answer. Raises SandboxError if the judge fails."""
        return self._judged.result()[0]

    @property
    def ended(self) -> float:
        """When the last answer was there, by `time.perf_counter`; waits for it as `result` does."""
        return self._judged.result()[1]


def judge_group(
    judge: Judge, problem: Problem, group: Sequence[Candidate], book: Sequence[Test], config: JudgingConfig
) -> Judgement:
    """Validates the suites of a question's group, then runs every program on its own kept tests and the book's.

    Raises SandboxError if the judge fails.
    """
    written = {c.duplicate_of: [suite for _, suite in c.suites] for c in group}
    suites = _validated(judge, problem, [suite for own in written.values() for suite in own], config)
    validated = {index: tuple(suites[suite] for suite in own) for index, own in written.items()}
    kept = {index: [test.call for suite in own for test in suite.kept] for index, own in validated.items()}
    everyones = [call for calls in kept.values() for call in calls]
    remembered = [test.call for test in book]
    pending = {
        index: submit_calls(
            judge,
            with_imports(group[index].program, problem),
            [*remembered, *(everyones if config.pooled else calls)],
            problem.entry_point,
        )
        for index, calls in kept.items()
    }
    return Judgement(validated, {index: program.result() for index, program in pending.items()})


def _validated(
    judge: Judge, problem: Problem, suites: Sequence[Suite], config: JudgingConfig
) -> dict[Suite, ValidatedSuite]:
    """Every suite, validated against the reference. A call that the question does not allow is invalid and dropped."""
    half = judge.limits.halved()
    limits = replace(half, program_seconds=_seconds(half, config.suite_size))

    def reference(calls: tuple[str, ...]) -> Job:
        return Job(problem.solution, calls, limits, problem.entry_point, is_reference=True)

    def stated(expressions: tuple[str, ...]) -> Job:
        return Job("", expressions, limits)

    allowed = [[test for test in suite.tests if is_allowed(problem, test.call)] for suite in suites]
    literals = {test.stated: encode_literal(test.stated) for tests in allowed for test in tests}
    calls = [[test.call for test in tests] for tests in allowed]
    computed = [[test.stated for test in tests if literals[test.stated] is None] for tests in allowed]
    outcomes = _by_suite(judge, reference, calls)
    answers = _by_suite(judge, stated, computed if config.answer_prediction else [[] for _ in suites])
    validated = {}
    for suite, tests, known, found in zip(suites, allowed, outcomes, answers, strict=True):
        values = {**literals, **{expression: outcome.value for expression, outcome in found.items()}}
        returned = [known[test.call] for test in tests]
        predicted = [values[test.stated] for test in tests]
        filled_in = [outcome.value for outcome in returned]
        judged = validate_suite(
            [test.call for test in tests],
            returned,
            predicted if config.answer_prediction else filled_in,
            config.repeats,
            problem.tolerance,
        )
        validated[suite] = replace(judged, invalid=judged.invalid + len(suite.tests) - len(tests))
    return validated


def _by_suite(
    judge: Judge, job: Callable[[tuple[str, ...]], Job], suites: Sequence[Sequence[str]]
) -> list[dict[str, Outcome]]:
    """What each suite's expressions give within the suite's own time.

    All are asked at once; only where that takes longer than one suite may, each suite is asked by itself. The answers
    are the same: no expression sees what another did.
    """
    together = tuple(dict.fromkeys(expression for suite in suites for expression in suite))
    if not together:
        return [{} for _ in suites]
    found = dict(zip(together, judge.submit(job(together)).result().outcomes, strict=True))
    if not any(outcome.status is Status.TIMED_OUT for outcome in found.values()):
        return [{expression: found[expression] for expression in suite} for suite in suites]
    each = [tuple(dict.fromkeys(suite)) for suite in suites]
    executions = {calls: judge.submit(job(calls)) for calls in dict.fromkeys(each) if calls}
    return [dict(zip(calls, executions[calls].result().outcomes, strict=True)) if calls else {} for calls in each]
