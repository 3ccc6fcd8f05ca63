"""What the judge is asked about one question, and what it answers.

The reference, every candidate and the stated answers each run in a process of their own; a candidate's process
is given calls, never an expected value. Verdicts are comparisons made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from codea1_jax.game.records import Candidate
from data_pipeline import Problem
from sandbox import Execution, Job, Judge, Limits, Outcome, Test, encode_literal

# Seconds that a reference may take for all of its calls. Judges remember answers by the limits they were given under,
# so it is one number for every round of a question, above what any usual number of calls can take.
PATIENCE = 300.0


@dataclass(frozen=True)
class Testimony:
    """One program's answers: did it execute, and what did each call do."""

    valid: bool
    outcomes: Mapping[str, Outcome]


@dataclass(frozen=True)
class Asked:
    """Calls on their way through the judge."""

    calls: tuple[str, ...]
    execution: Future[Execution]


def ask(pool: Judge, program: str, calls: Iterable[str], entry_point: str) -> Asked:
    """Submits a program and the calls to evaluate in its process, each distinct one once.

    In all it has at least the time that a reference has: one suite's slow tests must not cost another's.
    """
    distinct = tuple(dict.fromkeys(calls))
    seconds = max(pool.limits.program_seconds, _of_reference(pool.limits, len(distinct)))
    limits = replace(pool.limits, program_seconds=seconds)
    return Asked(distinct, pool.submit(Job(program, distinct, limits, entry_point)))


def ask_reference(pool: Judge, problem: Problem, calls: Iterable[str]) -> Asked:
    """Submits a question's reference, whose answers are remembered.

    It has half the time of other programs for a call, or a test would hang on a hair for all that are as fast as it
    is; but that for every call.
    """
    distinct = tuple(dict.fromkeys(calls))
    seconds = max(PATIENCE, _of_reference(pool.limits, len(distinct)))
    limits = replace(pool.limits.halved(), program_seconds=seconds)
    job = Job(problem.solution, distinct, limits, problem.entry_point, is_reference=True)
    return Asked(distinct, pool.submit(job))


def _of_reference(limits: Limits, calls: int) -> float:
    """The most seconds that a reference can take for so many calls, beside programs with these limits."""
    half = limits.halved()
    return half.load_seconds + half.call_seconds * calls


def testimony(asked: Asked) -> Testimony:
    """Waits for the answers. Raises SandboxError if the judge fails: an outage is never a verdict."""
    execution = asked.execution.result()
    return Testimony(execution.valid, dict(zip(asked.calls, execution.outcomes, strict=True)))


class StatedAnswers:
    """The canonical values of stated answers: literals are read here, other expressions computed in a jail."""

    def __init__(self, pool: Judge, expressions: Iterable[str]) -> None:
        self._values = {expression: encode_literal(expression) for expression in expressions}
        computed = [expression for expression, value in self._values.items() if value is None]
        self._asked = ask(pool, "", computed, "") if computed else None

    def result(self) -> Mapping[str, str | None]:
        """By expression; None where it has no plain-data value."""
        if self._asked is None:
            return self._values
        computed = {e: outcome.value for e, outcome in testimony(self._asked).outcomes.items()}
        return self._values | computed


@dataclass(frozen=True)
class Judgement:
    """All answers about one question's group. `programs` is keyed by the candidate's `twin`."""

    reference: Testimony
    stated: Mapping[str, str | None]
    programs: Mapping[int, Testimony]


class PendingJudgement:
    """A question's jobs, already with the pool.

    Every program is asked for the book's calls and its own suites', or all of the question's with `pooled`.
    """

    def __init__(
        self,
        pool: Judge,
        problem: Problem,
        group: Sequence[Candidate],
        book: Sequence[Test],
        *,
        pooled: bool,
    ) -> None:
        tests = {c.twin: [test for _, suite in c.suites for test in suite.tests] for c in group}
        own = {twin: [test.call for test in written] for twin, written in tests.items()}
        every = [call for calls in own.values() for call in calls]
        remembered = [test.call for test in book]
        self._reference = ask_reference(pool, problem, every)
        self._stated = StatedAnswers(pool, (t.stated for written in tests.values() for t in written))
        self._programs = {
            twin: ask(pool, group[twin].program, [*remembered, *(every if pooled else calls)], problem.entry_point)
            for twin, calls in own.items()
        }

    def result(self) -> Judgement:
        """Waits for the last answer. Raises SandboxError if the judge fails."""
        programs = {twin: testimony(asked) for twin, asked in self._programs.items()}
        return Judgement(testimony(self._reference), self._stated.result(), programs)
