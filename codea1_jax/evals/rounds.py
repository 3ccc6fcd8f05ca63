"""UnLeakedTestBench (arXiv 2508.00408): in each of five rounds one more test is asked for a function that is shown.

A round's test is the first of the response, in the suite language, whose call is not that of an earlier round; a round
without one counts as a wrong test. `official` has the benchmark's own form of a test instead.

pass@5 is the share of correct tests among the five, over all functions of the data: those that cannot be judged have
none. mut@5 is the share of mutants that the correct tests kill, over functions with a correct test; `mut_at_5_all` is
over all functions. Both are ours: the benchmark's scripts and the paper's authors (`paper`) count a function only if
all its tests pass. Mul is pass@5 · mut@5 / 100; coverage that of all five tests, right or wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from codea1_jax.evals.coverage import Coverage, submit_coverage
from codea1_jax.evals.journal import RESULTS_FILE, Journal, Progress
from codea1_jax.evals.metrics import Estimate, estimate
from codea1_jax.evals.mutants import Mutant, make_mutants
from codea1_jax.evals.requests import next_test_request
from codea1_jax.game.judging import StatedAnswers, submit_calls
from codea1_jax.game.players import Player
from codea1_jax.game.tasks import task_of
from data_pipeline import Problem
from data_pipeline.validate import NO_SOLUTION, allowed, failures
from sandbox import Job, Judge, JudgeJob, Limits, SuiteTest, Task, Test, same

T = TypeVar("T")

TESTS_FILE = "tests.jsonl"
MUTANT_LIMITS = Limits(memory_mb=1024)  # 1 second a call, as the benchmark gives each test
ROUNDS = 5

_CHECKED = "it has a checker, and here tests are compared with one answer"
WRONG, CORRECT, NONE = "wrong", "correct", "none"


@dataclass(frozen=True)
class FunctionResult:
    """A function's five tests (empty where a round gave none), how each ended, and what they did together.

    lines, branches: the shares that the tests run, 0 to 1; None where coverage is not measured.
    """

    task_id: str
    tests: tuple[str, ...]
    outcomes: tuple[str, ...]
    mutants: int
    killed: int
    lines: float | None = None
    branches: float | None = None

    @property
    def right(self) -> float:
        """The share of correct tests among the rounds."""
        return self.outcomes.count(CORRECT) / ROUNDS

    @property
    def kill_rate(self) -> float | None:
        """The share of mutants that the correct tests kill; None without mutants."""
        return self.killed / self.mutants if self.mutants else None


def choose(tests: Iterable[SuiteTest], before: Iterable[SuiteTest | None]) -> SuiteTest | None:
    """The first test whose call is new."""
    known = {test.call for test in before if test}
    return next((test for test in tests if test.call not in known), None)


def answered(judge: Judge, problem: Problem, tests: Sequence[SuiteTest]) -> list[SuiteTest]:
    """The tests with the answers of the problem's own solution, each call once.

    Leaves out calls whose answer cannot be written as a literal: they raise, or
    return nothing plain, a nan or a very long value.
    Raises SandboxError if the judge fails.
    """
    calls = [test.call for test in tests]
    outcomes = submit_calls(judge, problem, problem.driven(problem.preamble + problem.solution), calls).result().by_call
    values = {call: outcome.value for call, outcome in outcomes.items()}
    stated = {call: task_of(problem).stated(value) for call, value in values.items() if value is not None}
    return [SuiteTest(call, answer) for call, answer in stated.items() if answer is not None]


def holding(judge: Judge, problem: Problem, tests: Sequence[SuiteTest]) -> dict[SuiteTest, Test]:
    """Those tests whose stated answer the problem's own solution gives. Raises SandboxError if the judge fails."""
    function = problem.driven(problem.preamble + problem.solution)
    answers = submit_calls(judge, problem, function, [test.call for test in tests])
    stated = StatedAnswers(judge, problem.task, [test.stated for test in tests]).result()
    values = {call: outcome.value for call, outcome in answers.result().by_call.items()}
    held = {}
    for test in tests:
        value, answer = values[test.call], stated[test.stated]
        if value is not None and answer is not None and same(value, answer):
            held[test] = Test(test.call, value)
    return held


def submit_mutants(
    judge: Judge, problem: Problem, mutants: Sequence[Mutant], tests: Sequence[Test]
) -> Callable[[], tuple[bool, ...]]:
    """Submits tests, which hold under the function itself, on every mutant; what is returned waits for who is killed.

    A mutant is killed if a test fails on it, raises, or runs out of time, or if the mutant does not even load: whatever
    makes the test command of cosmic-ray end with an error. No test kills nothing. SandboxError if the judge fails.
    """
    programs = [problem.driven(problem.preamble + mutant.program) for mutant in mutants]
    asked = (tuple(tests), allowed(problem, MUTANT_LIMITS), problem.called, problem.task)
    jobs = [JudgeJob(program, *asked) for program in programs if tests]
    runs = [judge.submit_judge(job) for job in jobs]

    def result() -> tuple[bool, ...]:
        killed = [not all(verdict.passed for verdict in run.result().tests) for run in runs]
        return tuple(killed or [False] * len(mutants))

    return result


def _submit(
    judge: Judge, problem: Problem, tests: Sequence[SuiteTest | None], mutants: Sequence[Mutant]
) -> Callable[[], FunctionResult]:
    """Submits all jobs of one function; what is returned waits for the last of them."""
    written = [test for test in tests if test]
    covered = _submit_coverage(judge, problem, [test.call for test in written])
    correct = holding(judge, problem, written)
    kills = submit_mutants(judge, problem, mutants, tuple(correct.values()))

    def result() -> FunctionResult:
        killed, coverage = kills(), covered()
        return FunctionResult(
            task_id=problem.id,
            tests=tuple(task_of(problem).spelled(test, problem) if test else "" for test in tests),
            outcomes=tuple((CORRECT if test in correct else WRONG) if test else NONE for test in tests),
            mutants=len(killed),
            killed=sum(killed),
            lines=coverage and coverage.lines,
            branches=coverage and coverage.branches,
        )

    return result


def _submit_coverage(judge: Judge, problem: Problem, calls: Sequence[str]) -> Callable[[], Coverage | None]:
    """What the tests run of the function or class; None of a stream, of which it is not measured."""
    if problem.task is Task.STREAM:
        return lambda: None
    return submit_coverage(judge, problem.solution, calls, problem.above, problem.driver)


def score(
    written: Mapping[Problem, Sequence[SuiteTest | None]], mutants: Mapping[Problem, Sequence[Mutant]], judge: Judge
) -> Iterator[FunctionResult]:
    """Judges every function's tests; results in order. Raises SandboxError if the judge fails."""
    submitted = (_submit(judge, problem, tests, mutants[problem]) for problem, tests in written.items())
    return (result() for result in ahead(submitted, 2))


def ahead(items: Iterable[T], most: int, size: Callable[[T], int] = lambda _: 1) -> Iterator[T]:
    """The items, taken early, to keep the judge busy: up to `most` of what `size` counts wait here, or one item."""
    waiting, held = deque[T](), 0
    for item in items:
        waiting.append(item)
        held += size(item)
        while held > most and len(waiting) > 1:
            held -= size(waiting[0])
            yield waiting.popleft()
    yield from waiting


def metrics_of(results: Sequence[FunctionResult], unjudged: int = 0) -> dict[str, Estimate]:
    """The figures in percent; nothing of no results. `unjudged` functions have no correct test and kill no mutant.

    Functions without mutants count for no mut@5 and no Mul.
    """
    if not results:
        return {}
    absent = [0.0] * unjudged
    right = [result.right for result in results]
    killed = [result.kill_rate for result in results]
    by_tests = [rate if share else None for share, rate in zip(right, killed, strict=True)]
    estimates = {"pass_at_5": estimate([*right, *absent])}
    if any(rate is not None for rate in killed):
        estimates |= {
            "mut_at_5": estimate([*by_tests, *[None] * unjudged]),
            "mul": estimate([*right, *absent], [*by_tests, *[None] * unjudged]),
            "mut_at_5_all": estimate([*killed, *absent]),
        }
    if unjudged:
        estimates |= {"pass_at_5_sound": estimate(right)}
    if any(result.lines is not None for result in results):
        estimates |= {"line_coverage": estimate([result.lines for result in results])}
        estimates |= {"branch_coverage": estimate([result.branches for result in results])}
    return estimates


def evaluate_tests(
    problems: Sequence[Problem], player: Player, judge: Judge, journal: Journal, progress: Progress
) -> dict[str, Any]:
    """`codea1 eval tests`: figures over functions, and why some cannot be judged.

    Those are the ones that do not load, fail their tests or do not mutate. Raises SandboxError if the judge fails,
    UserError where cosmic-ray or coverage.py is missing, and what the player raises.
    """
    sound, unsound = sound_functions(problems, judge)

    def ask(asked: Sequence[Problem], texts: Mapping[Problem, Sequence[str]]) -> Iterator[tuple[Problem, str]]:
        requests = [next_test_request(p, [text for text in texts[p] if text], len(texts[p])) for p in asked]
        for i, suites in player.suites(requests):
            before = [_test(text, asked[i]) for text in texts[asked[i]]]
            test = choose((test for each in suites for test in each.suite.tests), before)
            yield asked[i], task_of(asked[i]).spelled(test, asked[i]) if test else ""

    written = journal.rounds(TESTS_FILE, "test", tuple(sound), ROUNDS, ask)

    def judged(done: Collection[str]) -> Iterator[FunctionResult]:
        tests = {p: [_test(text, p) for text in texts] for p, texts in written.items() if p.id not in done}
        return score(tests, sound, judge)

    results = journal.completed(RESULTS_FILE, FunctionResult, judged, lambda done: progress(done, len(sound)))
    return figures([results[problem.id] for problem in sound], unsound)


def _test(text: str, problem: Problem) -> SuiteTest | None:
    return next(iter(task_of(problem).suite_in(text, problem).tests), None)


def figures(results: Sequence[FunctionResult], unsound: Mapping[str, str]) -> dict[str, Any]:
    """What a command reports of the results and of the functions that could not be judged."""
    metrics = {name: asdict(value) for name, value in metrics_of(results, len(unsound)).items()}
    counts = {"problems": len(results) + len(unsound), "sound": len(results)}
    return {"benchmarks": {"tests": counts | metrics}, "unsound": unsound}


def sound_functions(
    problems: Sequence[Problem], judge: Judge
) -> tuple[dict[Problem, tuple[Mutant, ...]], dict[str, str]]:
    """The mutants of every function that can be judged, and by id why the others cannot."""
    jobs = [Job(problem.driven(problem.preamble + problem.solution), task=problem.task) for problem in problems]
    runs = judge.execute(jobs)
    unsound = {
        problem.id: f"does not execute: {run.loaded.status} {run.loaded.detail}".strip()
        for problem, run in zip(problems, runs, strict=True)
        if not run.valid
    }
    unsound |= {problem.id: NO_SOLUTION for problem in problems if not problem.solution}
    unsound |= {problem.id: _CHECKED for problem in problems if problem.checker}
    # UnLeakedTestBench's own tests are often wrong, its functions are right by definition.
    tested = [p for p in problems if p.source != "ult" and p.golden_tests and p.id not in unsound]
    reasons = zip(tested, failures(tested, judge), strict=True)
    unsound |= {problem.id: reason for problem, reason in reasons if reason is not None}
    sound = [problem for problem in problems if problem.id not in unsound]
    made = dict(zip(sound, make_mutants([problem.solution for problem in sound]), strict=True))
    unsound |= {problem.id: mutants for problem, mutants in made.items() if isinstance(mutants, str)}
    return {problem: mutants for problem, mutants in made.items() if not isinstance(mutants, str)}, unsound
