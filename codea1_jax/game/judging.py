"""What the judge is asked about one question, and what it answers.

First the reference and the stated answers, which decide which of each suite's tests hold; then every program, on the
tests that were kept, and where `rewards.test_value` asks for them mutants of the reference. Reference,
programs and stated answers each run in their own processes; a program's process is given calls, never an expected
value. Verdicts are comparisons made here.

No suite can change what another's tests are worth: each has its own time for its calls of the reference and one
for its stated answers, and the programs have time for all calls. As in the original, `sandbox.script_seconds` gives all
suites of a program one time instead, and with it the program; one whose suites have something that hangs is not valid.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TypeVar

from codea1_jax.config import Config
from codea1_jax.game.rollouts import Candidate
from codea1_jax.game.suites import Suite
from codea1_jax.game.tasks import task_of
from codea1_jax.game.validation import ValidatedSuite, validate_suite
from codea1_jax.game.values import Detections, detect
from data_pipeline import Problem
from data_pipeline.checking import apply_checker, stated_or_expected
from data_pipeline.golden import read_golden_tests
from data_pipeline.validate import allowed
from sandbox import Execution, Job, Judge, Limits, Outcome, Status, Task, Test, encode_stated, in_thread

T = TypeVar("T")


@dataclass(frozen=True)
class ProgramOutcomes:
    """What one program did: whether it executed, and what each call gave, by the call's text.

    in_script: of a script, what each test gave, those of its suites and then the book's; there a test that passed may
    fail when it is repeated behind one that hangs.
    """

    valid: bool
    by_call: Mapping[str, Outcome]
    in_script: tuple[Outcome, ...] | None = None


@dataclass(frozen=True)
class PendingOutcomes:
    """Calls of one program that the judge is working on; `is_script`: in order, repeats included."""

    calls: tuple[str, ...]
    execution: Future[Execution]
    is_script: bool = False

    def result(self) -> ProgramOutcomes:
        """Waits. Raises SandboxError if the judge fails: an outage is never a verdict."""
        execution = self.execution.result()
        outcomes = _end_script(execution.outcomes) if self.is_script else execution.outcomes
        by_call = dict(zip(self.calls, outcomes, strict=True))
        return ProgramOutcomes(execution.valid, by_call, outcomes if self.is_script else None)


def _end_script(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """A script's outcomes: the call that runs out of its time ends it, even if a moment of that time was left."""
    end = next((i for i, outcome in enumerate(outcomes) if outcome.status is Status.TIMED_OUT), len(outcomes))
    return (*outcomes[:end], *(Outcome(Status.TIMED_OUT) for _ in outcomes[end:]))


def submit_calls(
    judge: Judge, problem: Problem, program: str, calls: Iterable[str], *, is_reference: bool = False
) -> PendingOutcomes:
    """Submits a program that should solve the problem and the calls to evaluate, each distinct one once.

    The program's budget is the time of loading and of one call for every call: one slow test must not cost another.
    """
    distinct, limits = tuple(dict.fromkeys(calls)), allowed(problem, judge.limits)
    limits = replace(limits, program_seconds=max(limits.program_seconds, _seconds(limits, len(distinct) + 1)))
    job = Job(program, distinct, limits, problem.called, is_reference, task=problem.task)
    return PendingOutcomes(distinct, judge.submit(job))


def _seconds(limits: Limits, calls: int) -> float:
    return calls * (limits.load_seconds + limits.call_seconds)


def submit_script(
    judge: Judge, program: str, calls: Iterable[str], entry_point: str, seconds: float
) -> PendingOutcomes:
    """Submits a program and calls to evaluate in one process, in order: what is left when the time is over fails."""
    every, limits = tuple(calls), script_limits(judge.limits, seconds)
    job = Job(program, every, limits, entry_point, together=True)
    return PendingOutcomes(every, judge.submit(job), is_script=True)


def script_limits(limits: Limits, seconds: float) -> Limits:
    """The limits of a script: loading and all calls share these seconds, which a single one may use up."""
    return replace(limits, call_seconds=seconds, load_seconds=seconds, program_seconds=seconds)


class StatedAnswers:
    """The canonical values of stated answers: literals are read here, other expressions computed in a jail."""

    def __init__(self, judge: Judge, task: Task, expressions: Iterable[str]) -> None:
        self._values = {expression: encode_stated(expression, task) for expression in expressions}
        self._computed = tuple(expression for expression, value in self._values.items() if value is None)
        seconds = max(judge.limits.program_seconds, _seconds(judge.limits, len(self._computed) + 1))
        limits = replace(judge.limits, program_seconds=seconds)
        self._pending = judge.submit(Job("", self._computed, limits)) if self._computed else None

    def result(self) -> Mapping[str, str | None]:
        """The value of each expression; None where it is not plain data."""
        if self._pending is None:
            return self._values
        outcomes = self._pending.result().outcomes
        return self._values | {e: outcome.value for e, outcome in zip(self._computed, outcomes, strict=True)}


def golden_tests(problem: Problem, judge: Judge) -> tuple[Test, ...]:
    """A problem's golden tests with their answers as plain data; a test whose answer is not is left out."""
    suite = read_golden_tests(problem)
    stated = StatedAnswers(judge, problem.task, [test.stated for test in suite]).result()
    answers = [stated[test.stated] for test in suite]
    if problem.checker:  # what the reference gives, as every other test states it of the same input
        known = submit_calls(judge, problem, problem.solution, [test.call for test in suite]).result().by_call
        answers = stated_or_expected(judge, problem, suite, answers, [known[test.call] for test in suite])
    answered = zip(suite, answers, strict=True)
    return tuple(Test(t.call, value, tolerance=t.tolerance) for t, value in answered if value is not None)


@dataclass(frozen=True)
class Judgement:
    """All answers about one question's group.

    book: the tests that every program faced besides its suites'. Both mappings are keyed by a candidate's
    `duplicate_of`; its suites are in the order of sampling. detections: what the suites' tests kill; None where
    `rewards.test_value` is the paper's.
    """

    book: tuple[Test, ...]
    suites: Mapping[int, tuple[ValidatedSuite, ...]]
    programs: Mapping[int, ProgramOutcomes]
    detections: Detections | None = None


class PendingJudgement:
    """A question on its way through the judge, followed by its own thread, which mostly waits.

    book: gives the tests that every program faces besides its suites'.
    """

    def __init__(
        self,
        judge: Judge,
        problem: Problem,
        group: Sequence[Candidate],
        book: Callable[[], Sequence[Test]],
        config: Config,
    ) -> None:
        def judged() -> tuple[Judgement, float]:
            return judge_group(judge, problem, group, book(), config), time.perf_counter()

        self._judged = in_thread(judged, name="judgement")

    def result(self) -> Judgement:
        """Waits. Raises SandboxError if the judge fails."""
        return self._judged.result()[0]

    @property
    def ended(self) -> float:
        """When the last answer was there, by `time.perf_counter`; waits for it as `result` does."""
        return self._judged.result()[1]


def judge_group(
    judge: Judge, problem: Problem, group: Sequence[Candidate], book: Sequence[Test], config: Config
) -> Judgement:
    """Validates the suites of a question's group, then runs every program on its own kept tests and the book's.

    Raises SandboxError if the judge fails.
    """
    written = {c.duplicate_of: [written.suite for written in c.suites] for c in group}
    validated = _validate_suites(judge, problem, written, config)
    kept = {index: [test for suite in own for test in suite.kept] for index, own in validated.items()}
    everyones = [test for tests in kept.values() for test in tests]
    on_suites = {test.call: test.expected for test in everyones}
    expected = on_suites | {test.call: test.expected for test in book}
    script_seconds, task = _script_seconds(problem, config), task_of(problem)
    pending: dict[int, PendingOutcomes] = {}
    for index, tests in kept.items():
        program = task.judged(group[index].program, problem, helpers=config.sandbox.reference_names)
        faced = [test.call for test in (*(everyones if config.rewards.pool_tests else tests), *book)]
        pending[index] = (
            submit_calls(judge, problem, program, faced)
            if script_seconds is None
            else submit_script(judge, program, faced, problem.called, script_seconds)
        )
    by_mutants = config.rewards.test_value == "mutation"
    mutants = map(problem.driven, problem.mutants[: config.rewards.mutants] if by_mutants else ())
    mutated = [submit_calls(judge, problem, mutant, on_suites) for mutant in mutants]
    programs = {index: _with_checker(judge, problem, program.result(), expected) for index, program in pending.items()}
    hung = {index for index, own in validated.items() if any(suite.hung for suite in own)}
    programs = {index: _fail_everything(found) if index in hung else found for index, found in programs.items()}
    ended = [_with_checker(judge, problem, mutant.result(), on_suites).by_call for mutant in mutated]
    return Judgement(tuple(book), validated, programs, detect(everyones, ended) if by_mutants else None)


def _with_checker(
    judge: Judge, problem: Problem, program: ProgramOutcomes, expected: Mapping[str, str]
) -> ProgramOutcomes:
    return replace(program, by_call=apply_checker(judge, problem, program.by_call, expected))


def _script_seconds(problem: Problem, config: Config) -> float | None:
    """None where each call has its own time, as each run of a stream has."""
    return None if problem.task is Task.STREAM else config.sandbox.script_seconds


def _fail_everything(script: ProgramOutcomes) -> ProgramOutcomes:
    late = Outcome(Status.TIMED_OUT)
    return ProgramOutcomes(False, dict.fromkeys(script.by_call, late), (late,) * len(script.in_script or ()))


def _validate_suites(
    judge: Judge, problem: Problem, written: Mapping[int, Sequence[Suite]], config: Config
) -> dict[int, tuple[ValidatedSuite, ...]]:
    """Every program's suites, validated against the reference. A call that the question does not allow is dropped."""
    suites = [suite for own in written.values() for suite in own]
    script_seconds, task = _script_seconds(problem, config), task_of(problem)
    scripts = None if script_seconds is None else [index for index, own in written.items() for _ in own]
    limits = _reference_limits(allowed(problem, judge.limits), config.rewards.suite_size, script_seconds)
    together = scripts is not None

    def reference(calls: tuple[str, ...]) -> Job:
        return Job(problem.driven(problem.solution), calls, limits, problem.called, True, together, problem.task)

    def stated(expressions: tuple[str, ...]) -> Job:
        return Job("", expressions, limits, together=together)

    permitted = [[test for test in suite.tests if task.is_allowed(problem, test.call)] for suite in suites]
    literals = {test.stated: encode_stated(test.stated, problem.task) for tests in permitted for test in tests}
    calls = [[test.call for test in tests] for tests in permitted]
    computed = [[test.stated for test in tests if literals[test.stated] is None] for tests in permitted]
    outcomes = _outcomes(judge, reference, calls, scripts)
    predicted = config.method.answer_prediction
    answers = _outcomes(judge, stated, computed if predicted else [[] for _ in suites], scripts)
    validated = []
    for suite, tests, known, found in zip(suites, permitted, outcomes, answers, strict=True):
        values = {**literals, **{expression: outcome.value for expression, outcome in found.items()}}
        invalid = suite.invalid + len(suite.tests) - len(tests)
        if together and any(outcome.status is Status.TIMED_OUT for outcome in (*known.values(), *found.values())):
            validated.append(ValidatedSuite((), invalid + len(tests), hung=True))
            continue
        returned = [known[test.call] for test in tests]
        answered = [values[test.stated] if predicted else known[test.call].value for test in tests]
        judged = validate_suite(
            [test.call for test in tests],
            returned,
            stated_or_expected(judge, problem, tests, answered, returned),
            config.rewards.repeats,
            problem.tolerance,
            task.view,
        )
        validated.append(replace(judged, invalid=judged.invalid + invalid))
    in_order = iter(validated)
    return {index: tuple(next(in_order) for _ in own) for index, own in written.items()}


def _reference_limits(limits: Limits, suite_size: int, script_seconds: float | None) -> Limits:
    if script_seconds is not None:
        return script_limits(limits, script_seconds)
    half = limits.halved()
    return replace(half, program_seconds=_seconds(half, suite_size))


def _outcomes(
    judge: Judge,
    job: Callable[[tuple[str, ...]], Job],
    suites: Sequence[Sequence[str]],
    scripts: Sequence[int] | None,
) -> list[Mapping[str, Outcome]]:
    """What each suite's expressions give within the suite's own time, or in that of the script that it belongs to; then
    each suite has the outcomes of its whole script.

    All are asked at once; only where that takes longer than one suite may, each suite is asked by itself. The answers
    are the same: no expression sees what another did. In a script it does.
    """
    if scripts is not None:
        return _by_script(judge, job, suites, scripts)
    together = tuple(dict.fromkeys(expression for suite in suites for expression in suite))
    if not together:
        return [{} for _ in suites]
    found = dict(zip(together, judge.submit(job(together)).result().outcomes, strict=True))
    if not any(outcome.status is Status.TIMED_OUT for outcome in found.values()):
        return [{expression: found[expression] for expression in suite} for suite in suites]
    return _by_script(judge, job, suites, range(len(suites)))


def _by_script(
    judge: Judge, job: Callable[[tuple[str, ...]], Job], suites: Sequence[Sequence[str]], scripts: Sequence[int]
) -> list[Mapping[str, Outcome]]:
    expressions: dict[int, dict[str, None]] = {}
    for suite, script in zip(suites, scripts, strict=True):
        expressions.setdefault(script, {}).update(dict.fromkeys(suite))
    jobs = {calls: judge.submit(job(calls)) for calls in dict.fromkeys(map(tuple, expressions.values())) if calls}
    found = {
        script: dict(zip(calls, jobs[tuple(calls)].result().outcomes, strict=True)) if calls else {}
        for script, calls in expressions.items()
    }
    return [found[script] for script in scripts]
