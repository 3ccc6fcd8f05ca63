"""What the judge is asked about one question, and what it answers.

First the reference and the stated answers, which decide which of each suite's tests hold; then every program, on the
tests that were kept. Where `rewards.test_value` asks for it, the reference's mutants, or all programs if there are
none, face the tests of all suites. Reference, programs and stated answers each run in their own processes; a program's
process is given calls, never an expected value. Verdicts are comparisons made here.

No suite can change what another's tests are worth: each has its own time for its calls of the reference and one
for its stated answers, and the programs have time for all calls. As in the original, `sandbox.script_seconds` gives all
suites of a program one time instead, and with it the program; one whose suites have something that hangs is not valid.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from codea1_jax.config import Config
from codea1_jax.game.rollouts import Candidate
from codea1_jax.game.suites import Suite
from codea1_jax.game.tasks import task_of
from codea1_jax.game.validation import ValidatedSuite, validate_suite
from codea1_jax.game.values import Detections, detect
from data_pipeline import Problem
from data_pipeline.imports import runnable
from data_pipeline.verdicts import allowed, golden_tests, stated_or_expected, time_for
from sandbox import Execution, Job, Judge, Limits, Outcome, Status, Task, Test, encode_stated, verdict_on

T = TypeVar("T")


@dataclass(frozen=True)
class ProgramOutcomes:
    """What one program did: whether it executed, and what each call gave, by the call's text.

    in_script: of a script, what each test gave, the book's and then those of its suites; there a test that passed may
    fail when it is repeated behind one that hangs.
    """

    valid: bool
    by_call: Mapping[str, Outcome]
    in_script: tuple[Outcome, ...] | None = None


@dataclass(frozen=True)
class PendingOutcomes:
    """Calls of one program that the judge is working on; `is_script`: in order, repeats included."""

    judge: Judge
    checker: str
    calls: tuple[str, ...]
    execution: Future[Execution]
    is_script: bool = False

    def result(self, expected: Mapping[str, str] | None = None) -> ProgramOutcomes:
        """Waits; what the problem's checker accepts besides the `expected` value of a call counts as that.

        Raises SandboxError if the judge fails: an outage is never a verdict.
        """
        execution = self.execution.result()
        outcomes = _end_script(execution.outcomes) if self.is_script else execution.outcomes
        values = map((expected or {}).get, self.calls)
        outcomes = tuple(self.judge.checked(self.checker, [*zip(self.calls, outcomes, values, strict=True)]))
        by_call = dict(zip(self.calls, outcomes, strict=True))
        return ProgramOutcomes(execution.valid, by_call, outcomes if self.is_script else None)


def _end_script(outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """A script's outcomes: the call that runs out of its time ends it, even if a moment of that time was left."""
    end = next((i for i, outcome in enumerate(outcomes) if outcome.status is Status.TIMED_OUT), len(outcomes))
    return (*outcomes[:end], *(Outcome(Status.TIMED_OUT) for _ in outcomes[end:]))


def submit_calls(
    judge: Judge,
    problem: Problem,
    program: str,
    calls: Iterable[str],
    *,
    is_reference: bool = False,
    script_seconds: float | None = None,
    helpers: bool = False,
) -> PendingOutcomes:
    """Submits a program that should solve the problem and the calls to evaluate, each distinct one once.

    script_seconds: all calls in one process, in order, repeats included; what is left when that time is over fails.
    helpers: see `runnable`.
    """
    is_script = script_seconds is not None
    if script_seconds is None:
        calls = tuple(dict.fromkeys(calls))
        limits = time_for(allowed(problem, judge.limits), len(calls))
    else:
        calls, limits = tuple(calls), judge.limits.lasting(script_seconds)
    text, checked = runnable(program, problem, helpers=helpers), bool(problem.checker)
    job = Job(text, calls, limits, problem.called, is_reference, is_script, problem.task, checked)
    return PendingOutcomes(judge, problem.checker, calls, judge.submit(job), is_script)


def book_tests(problem: Problem, judge: Judge) -> tuple[Test, ...]:
    """A problem's golden tests; what the checker accepts is stated as the reference has it, as in all other tests."""
    tests = golden_tests(judge, problem)
    if not problem.checker:
        return tests
    known = submit_calls(judge, problem, problem.solution, [test.call for test in tests]).result().by_call
    stated = [(test.call, Outcome(Status.RETURNED, test.expected), known[test.call].value) for test in tests]
    values = [outcome.value or "" for outcome in judge.checked(problem.checker, stated)]
    return tuple(replace(test, expected=value) for test, value in zip(tests, values, strict=True))


@dataclass(frozen=True)
class Judgement:
    """All answers about one question's group.

    book: the tests that every program faced besides its suites'. Both mappings are keyed by a candidate's
    `duplicate_of`; its suites are in the order of sampling. detections: what the suites' tests kill of the reference's
    mutants, or without mutants of the programs that execute and are wrong; None where `rewards.test_value` is the
    paper's.
    """

    book: tuple[Test, ...]
    suites: Mapping[int, tuple[ValidatedSuite, ...]]
    programs: Mapping[int, ProgramOutcomes]
    detections: Detections | None = None


def judge_group(
    judge: Judge, problem: Problem, group: Sequence[Candidate], book: Sequence[Test], config: Config
) -> Judgement:
    """Validates the suites of a question's group, then runs every program on the book's tests and its own kept ones.

    Raises SandboxError if the judge fails.
    """
    written = {c.duplicate_of: [written.suite for written in c.suites] for c in group}
    validated = _validate_suites(judge, problem, written, config)
    kept = {index: [test for suite in own for test in suite.kept] for index, own in validated.items()}
    everyones = [test for tests in kept.values() for test in tests]
    on_suites = {test.call: test.expected for test in everyones}
    expected = on_suites | {test.call: test.expected for test in book}
    script_seconds, helpers = _script_seconds(problem, config), config.sandbox.reference_names
    pending: dict[int, PendingOutcomes] = {}
    for index, tests in kept.items():
        faced = [test.call for test in (*book, *(everyones if config.rewards.pool_tests else tests))]
        own = group[index].program
        pending[index] = submit_calls(judge, problem, own, faced, script_seconds=script_seconds, helpers=helpers)
    valued = config.rewards.test_value != "paper"
    mutants = problem.mutants[: config.rewards.mutants]
    faulty = (mutants or [group[index].program for index in kept]) if valued else ()
    ran = [submit_calls(judge, problem, each, on_suites, helpers=helpers) for each in faulty]
    programs = {index: program.result(expected) for index, program in pending.items()}
    hung = {index for index, own in validated.items() if any(suite.hung for suite in own)}
    programs = {index: _fail_everything(found) if index in hung else found for index, found in programs.items()}
    ended = [each.result(on_suites) for each in ran]
    if not mutants:
        executed = [one for index, one in zip(kept, ended, strict=False) if index not in hung and one.valid]
        ended = [one for one in executed if not all(verdict_on(one.by_call[t.call], t).passed for t in everyones)]
    detections = detect(everyones, [one.by_call for one in ended]) if valued else None
    return Judgement(tuple(book), validated, programs, detections)


def _script_seconds(problem: Problem, config: Config) -> float | None:
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
    together, checked = scripts is not None, bool(problem.checker)
    solution = runnable(problem.solution, problem)

    def reference(calls: tuple[str, ...]) -> Job:
        return Job(solution, calls, limits, problem.called, True, together, problem.task, checked)

    def stated(expressions: tuple[str, ...]) -> Job:
        return Job("", expressions, limits, together=together)

    permitted = [[test for test in suite.tests if task.is_allowed(problem, test.call)] for suite in suites]
    every = [test.stated for tests in permitted for test in tests]
    literals = {stated: encode_stated(stated, problem.task, as_printed=checked) for stated in every}
    calls = [[test.call for test in tests] for tests in permitted]
    predicted = config.method.answer_prediction
    computed = [[t.stated for t in tests if predicted and literals[t.stated] is None] for tests in permitted]
    outcomes = _outcomes(judge, reference, calls, scripts)
    answers = _outcomes(judge, stated, computed, scripts)
    hung = {
        script
        for script, *ran in zip(scripts or (), outcomes, answers, strict=False)
        if any(outcome.status is Status.TIMED_OUT for found in ran for outcome in found)
    }
    validated = []
    for i, (suite, tests, returned, expressions, found) in enumerate(
        zip(suites, permitted, outcomes, computed, answers, strict=True)
    ):
        values = literals | {text: outcome.value for text, outcome in zip(expressions, found, strict=True)}
        invalid = suite.invalid + len(suite.tests) - len(tests)
        if scripts is not None and scripts[i] in hung:
            validated.append(ValidatedSuite((), invalid + len(tests), hung=True))
            continue
        answered = [
            values[test.stated] if predicted else outcome.value for test, outcome in zip(tests, returned, strict=True)
        ]
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
        return limits.lasting(script_seconds)
    half = limits.halved()
    return replace(half, program_seconds=suite_size * (half.load_seconds + half.call_seconds))


def _outcomes(
    judge: Judge, job: Callable[[tuple[str, ...]], Job], suites: Sequence[Sequence[str]], scripts: Sequence[int] | None
) -> list[list[Outcome]]:
    """What each suite's expressions give within the suite's own time, or in that of the script that it belongs to.

    All are asked at once; only where that takes longer than one suite may, each suite is asked by itself. The answers
    are the same: no expression sees what another did. In a script it does, and what is repeated there runs again.
    """
    if scripts is not None:
        return _in_scripts(judge, job, suites, scripts)
    together = tuple(dict.fromkeys(expression for suite in suites for expression in suite))
    found = _asked(judge, job, [together])[0]
    if any(outcome.status is Status.TIMED_OUT for outcome in found):
        return _asked(judge, job, suites)
    by_expression = dict(zip(together, found, strict=True))
    return [[by_expression[expression] for expression in suite] for suite in suites]


def _in_scripts(
    judge: Judge, job: Callable[[tuple[str, ...]], Job], suites: Sequence[Sequence[str]], scripts: Sequence[int]
) -> list[list[Outcome]]:
    wholes: dict[int, list[str]] = {script: [] for script in scripts}
    for suite, script in zip(suites, scripts, strict=True):
        wholes[script] += suite
    ran = dict(zip(wholes, map(iter, _asked(judge, job, list(wholes.values()))), strict=True))
    return [list(islice(ran[script], len(suite))) for suite, script in zip(suites, scripts, strict=True)]


def _asked(judge: Judge, job: Callable[[tuple[str, ...]], Job], groups: Sequence[Sequence[str]]) -> list[list[Outcome]]:
    """What the expressions of each group give within one job; of equal groups that is asked once."""
    jobs = {group: judge.submit(job(group)) for group in dict.fromkeys(map(tuple, groups)) if group}
    return [list(jobs[tuple(group)].result().outcomes) if group else [] for group in groups]
