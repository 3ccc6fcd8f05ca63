"""A benchmark to score by: problems whose own solutions pass their own checks, and the time each check takes.

A problem that fails its own check cannot be judged; it is named with the reason. A benchmark's figures are over all of
its problems, as the paper's: nobody solves one that cannot be judged.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import BoundedSemaphore
from typing import Literal

from data_pipeline.checking import accepted
from data_pipeline.golden import read_golden_tests
from data_pipeline.imports import with_imports
from data_pipeline.problem import Problem, Refusal
from data_pipeline.validate import allowed
from sandbox import (
    CheckJob,
    CheckResult,
    Judge,
    JudgeJob,
    Limits,
    Status,
    Task,
    Test,
    Verdict,
    Verdicts,
    in_thread,
    then,
    verdict_on,
)
from sandbox.streams import encode_output

PACKAGES = ("numpy",)  # which the checks of evalplus import; whatever else is installed here comes with it
MEMORY_MB = 4096  # as evalplus allows
LONGEST_CHECK = 60.0  # seconds of CPU time, as evalplus allows for one sample
SLOWER = 4.0  # how much slower than the reference a sample may be, as evalplus allows
SHORTEST_CALL = 1.0  # seconds that one call may take at least, as evalplus allows

LimitsOf = Literal["ours", "paper", "paper_last"]
"""By which limits programs are judged: ours follow the reference; the original's are longer after the last step."""

_CHECKING = BoundedSemaphore(32)
_MOST_CHECKED = 100  # tests that a check of its own may hold
LIVE_SECONDS = 6.0  # for a test where nothing is known: LiveCodeBench's own

PAPER_SECONDS: Mapping[LimitsOf, float] = {"paper": 10.0, "paper_last": 20.0}
PAPER_SCRIPT_SECONDS, PAPER_SCRIPT_MB = 240.0, 30 * 1024  # in BigCodeBench

_BESIDE = {"bigcodebench"}  # whose checks patch modules and look at real objects
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")


@dataclass(frozen=True)
class Benchmark:
    """Sound problems, each with the limits its samples run under, and those that cannot be judged.

    everything: all problems, in order; missing: those that need a package which the judge's Python lacks; unsound:
    those whose solution fails their own check.
    """

    everything: tuple[Problem, ...]
    limits: Mapping[Problem, Limits]
    missing: tuple[Refusal, ...]
    unsound: tuple[Refusal, ...]

    def within(self, limits: LimitsOf) -> "Benchmark":
        if limits == "ours":
            return self
        return replace(self, limits={problem: paper_limits(problem, limits) for problem in self.limits})

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(self.limits)

    @property
    def missing_packages(self) -> Counter[str]:
        return Counter(refusal.reason.split()[1].rstrip(",") for refusal in self.missing)

    @property
    def unjudged(self) -> tuple[Refusal, ...]:
        return self.missing + self.unsound

    @property
    def sizes(self) -> Counter[str]:
        """How many problems each benchmark has, by its name, sound or not."""
        return Counter(problem.source for problem in self.everything)


@dataclass(frozen=True)
class TaskResult:
    """How a problem's samples ended, in order; a detail explains why one did not pass."""

    task_id: str
    source: str
    statuses: tuple[str, ...]
    details: tuple[str, ...]

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.statuses), self.statuses.count(Status.PASSED)


Checks = tuple[Problem, Sequence[str], Mapping[str, Future[CheckResult]]]


def make_benchmark(problems: Sequence[Problem], judge: Judge) -> Benchmark:
    """Runs every problem's own solution against its own check; a problem without one is taken as sound.

    Raises SandboxError if the judge fails.
    """
    patient = Limits(
        call_seconds=LONGEST_CHECK, load_seconds=LONGEST_CHECK, program_seconds=LONGEST_CHECK, memory_mb=MEMORY_MB
    )
    solved = [problem for problem in problems if problem.solution]
    checks = {problem: submit_check(judge, problem, problem.solution, patient) for problem in solved}
    limits: dict[Problem, Limits] = {}
    missing, unsound = [], []
    for problem in problems:
        if not _check(problem):
            unsound.append(Refusal(problem.id, "it has neither a check nor tests"))
            continue
        if problem not in checks:
            limits[problem] = _unknown_limits(problem)
            continue
        result = checks[problem].result()
        reason = f"{result.verdict.status}: {result.verdict.detail}".removesuffix(": ")
        if result.passed:
            limits[problem] = _limits(result.cpu_seconds)
        elif module := _MISSING.search(reason):
            missing.append(Refusal(problem.id, f"needs {module[1]}, which the judge's Python lacks"))
        else:
            unsound.append(Refusal(problem.id, f"its own solution fails its own check ({reason})"))
    return Benchmark(tuple(problems), limits, tuple(missing), tuple(unsound))


def paper_limits(problem: Problem, limits: LimitsOf) -> Limits:
    """What the original gives a sample: seconds of the clock, whatever it does with them."""
    script = problem.source in _BESIDE
    seconds, memory_mb = (PAPER_SCRIPT_SECONDS, PAPER_SCRIPT_MB) if script else (PAPER_SECONDS[limits], MEMORY_MB)
    return Limits(
        call_seconds=seconds, load_seconds=seconds, program_seconds=seconds, wall_factor=1.0, memory_mb=memory_mb
    )


def submit_check(judge: Judge, problem: Problem, program: str, limits: Limits) -> Future[CheckResult]:
    """Submits a program to a problem's own check; where there is none, to its golden tests."""
    if problem.task is Task.STREAM:
        job = _run_on_golden_tests(problem, problem.preamble + program, limits)
        if problem.checker:
            return _in_turn(lambda: _whole(_checked(judge, problem, job)))
        return then(judge.submit_judge(job), _whole)
    whole = problem.preamble + problem.driven(with_imports(program, problem))
    job = CheckJob(whole, _check(problem), problem.called, limits, problem.source in _BESIDE)
    return judge.submit(job)


def check_samples(
    benchmark: Benchmark, drawn: Iterable[tuple[Problem, Sequence[str]]], judge: Judge
) -> Iterator[TaskResult]:
    """Checks each problem's programs as they come, equal ones once; results in the same order.

    Raises SandboxError if the judge fails.
    """
    pending: deque[Checks] = deque()
    for problem, programs in drawn:
        checks = {
            program: submit_check(judge, problem, program, benchmark.limits[problem])
            for program in dict.fromkeys(programs)
        }
        pending.append((problem, programs, checks))
        while pending and all(check.done() for check in pending[0][2].values()):
            yield _result(*pending.popleft())
    while pending:
        yield _result(*pending.popleft())


def _result(problem: Problem, programs: Sequence[str], checks: Mapping[str, Future[CheckResult]]) -> TaskResult:
    verdicts = {program: check.result().verdict for program, check in checks.items()}
    return TaskResult(
        task_id=problem.id,
        source=problem.source,
        statuses=tuple(str(verdicts[program].status) for program in programs),
        details=tuple(verdicts[program].detail for program in programs),
    )


def _run_on_golden_tests(problem: Problem, program: str, limits: Limits) -> JudgeJob:
    """A stream's check. `limits` are those of all tests together; a test has the time that the problem states."""
    tests = tuple(
        Test(test.call, encode_output(test.stated), tolerance=test.tolerance) for test in read_golden_tests(problem)
    )
    return JudgeJob(program, tests, allowed(problem, limits), task=problem.task)


def _in_turn(check: Callable[[], CheckResult]) -> Future[CheckResult]:
    """A check in a thread of its own; waits while many are under way, as the judge's `submit` does."""
    _CHECKING.acquire()
    future = in_thread(check, name="checker")
    future.add_done_callback(lambda _: _CHECKING.release())
    return future


def _checked(judge: Judge, problem: Problem, job: JudgeJob) -> Verdicts:
    asked = job.execution()
    execution = judge.submit(asked).result()
    outcomes = dict(zip(asked.calls, execution.outcomes, strict=True))
    printed = [(test, value) for test in job.tests if (value := outcomes[test.call].value) is not None]
    right = accepted(judge, problem, [(test.call, value, test.expected) for test, value in printed])
    passed = {
        test: Verdict(Status.PASSED, value) for (test, value), is_right in zip(printed, right, strict=True) if is_right
    }
    verdicts = tuple(passed.get(test) or verdict_on(outcomes[test.call], test) for test in job.tests)
    return Verdicts(execution.loaded, verdicts, execution.cpu_seconds)


def _whole(verdicts: Verdicts) -> CheckResult:
    failed = next((verdict for verdict in verdicts.tests if not verdict.passed), Verdict(Status.PASSED))
    return CheckResult(verdicts.loaded, failed, verdicts.cpu_seconds)


def _check(problem: Problem) -> str:
    # The checker stands in for pytest.approx, which a golden test with a tolerance needs.
    return problem.check or "\n".join(("import pytest", *problem.golden_tests) if problem.golden_tests else ())


def _unknown_limits(problem: Problem) -> Limits:
    seconds = problem.seconds or LIVE_SECONDS
    whole = Limits().load_seconds + (len(problem.golden_tests) or _MOST_CHECKED) * seconds
    return Limits(memory_mb=MEMORY_MB, call_seconds=seconds, program_seconds=whole)


def _limits(reference_seconds: float) -> Limits:
    allowed = min(LONGEST_CHECK, SLOWER * reference_seconds)
    call = max(SHORTEST_CALL, allowed)
    quick = Limits(memory_mb=MEMORY_MB, call_seconds=call)
    return replace(quick, program_seconds=max(quick.load_seconds, 2 * call))
