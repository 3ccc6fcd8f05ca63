"""A benchmark to score by: problems whose own solutions pass their own checks, and the time each check takes.

A problem that fails its own check cannot be judged; it is named with the reason. A benchmark's figures are over all of
its problems, as the paper's: nobody solves one that cannot be judged.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Literal

from data_pipeline.problem import Problem, Refusal
from data_pipeline.validate import LONGEST_CHECK, MEMORY_MB, NEEDS, PATIENT, checker_fault, failed_check, first_failure
from data_pipeline.verdicts import own_tests, submit_program
from sandbox import Judge, Limits, Status, Test, Verdicts

PACKAGES = ("numpy",)  # which the checks of evalplus import; whatever else is installed here comes with it
SLOWER = 4.0  # how much slower than the reference a sample may be, as evalplus allows
SHORTEST_CALL = 1.0  # seconds that one call may take at least, as evalplus allows

LimitsOf = Literal["ours", "paper", "paper_last"]
"""By which limits programs are judged: ours follow the reference; the original's are longer after the last step."""

_MOST_CHECKED = 100  # tests that a check of its own may hold
LIVE_SECONDS = 6.0  # for a test where nothing is known: LiveCodeBench's own

PAPER_SECONDS: Mapping[LimitsOf, float] = {"paper": 10.0, "paper_last": 20.0}
PAPER_SCRIPT_SECONDS, PAPER_SCRIPT_MB = 240.0, 30 * 1024  # in BigCodeBench


@dataclass(frozen=True)
class Benchmark:
    """Sound problems, each with the limits its samples run under, and those that cannot be judged.

    everything: all problems, in order; tests: what each is judged by (`verdicts.own_tests`); missing: those that need a
    package which the judge's Python lacks; unsound: those whose tests, checker or solution cannot be trusted.
    """

    everything: tuple[Problem, ...]
    limits: Mapping[Problem, Limits]
    tests: Mapping[Problem, tuple[Test, ...] | None]
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
class Failure:
    """The first test that a program failed: plain data; returned is None where it returned none (a detail says why)."""

    call: str
    expected: str
    returned: str | None


@dataclass(frozen=True)
class TaskResult:
    """How a problem's samples ended, in order; a detail explains why one did not pass.

    failures: of those that golden tests judge; None for one that passed.
    """

    task_id: str
    source: str
    statuses: tuple[str, ...]
    details: tuple[str, ...]
    failures: tuple[Failure | None, ...] = ()

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.statuses), self.statuses.count(Status.PASSED)


Checks = tuple[Problem, Sequence[str], Mapping[str, Future[Verdicts]]]


def make_benchmark(
    problems: Sequence[Problem], judge: Judge, advance: Callable[[int, int, str], object] = lambda *_: None
) -> Benchmark:
    """Runs each solution, if any, against its own check. Raises SandboxError if the judge fails.

    advance: is given how many are done, of how many, of what.
    """
    advance(0, len(problems), "references checked")
    tests: dict[Problem, tuple[Test, ...] | None] = {}
    missing, unsound = [], []
    for problem in problems:
        try:
            tests[problem] = own_tests(judge, problem)
        except ValueError as error:
            unsound.append(Refusal(problem.id, str(error)))
    solved = [problem for problem in tests if problem.solution]
    checks = {problem: submit_program(judge, problem, problem.solution, tests[problem], PATIENT) for problem in solved}
    limits: dict[Problem, Limits] = {}
    for done, (problem, own) in enumerate(tests.items()):
        advance(done, len(problems), "references checked")
        if own == ():
            unsound.append(Refusal(problem.id, "it has neither a check nor tests"))
            continue
        golden = [(test.call, test.expected) for test in own or ()]
        if fault := checker_fault(judge, problem, golden, may_reject=True):
            unsound.append(Refusal(problem.id, fault))
            continue
        if problem not in checks:
            limits[problem] = _unknown_limits(problem)
            continue
        result = checks[problem].result()
        reason = failed_check(result)
        if reason is None:
            limits[problem] = _limits(result.cpu_seconds)
        else:
            (missing if reason.startswith(NEEDS) else unsound).append(Refusal(problem.id, reason))
    return Benchmark(tuple(problems), limits, tests, tuple(missing), tuple(unsound))


def paper_limits(problem: Problem, limits: LimitsOf) -> Limits:
    """What the original gives a sample: seconds of the clock, whatever it does with them."""
    script = problem.source == "bigcodebench"
    seconds, memory_mb = (PAPER_SCRIPT_SECONDS, PAPER_SCRIPT_MB) if script else (PAPER_SECONDS[limits], MEMORY_MB)
    return Limits(wall_factor=1.0, memory_mb=memory_mb).lasting(seconds)


def check_samples(
    benchmark: Benchmark, drawn: Iterable[tuple[Problem, Sequence[str]]], judge: Judge
) -> Iterator[TaskResult]:
    """Checks each problem's programs, equal ones once; results in order. Raises SandboxError if the judge fails."""
    pending: deque[Checks] = deque()
    for problem, programs in drawn:
        checks = {
            program: submit_program(judge, problem, program, benchmark.tests[problem], benchmark.limits[problem])
            for program in dict.fromkeys(programs)
        }
        pending.append((problem, programs, checks))
        while pending and all(check.done() for check in pending[0][2].values()):
            yield _result(benchmark, *pending.popleft())
    while pending:
        yield _result(benchmark, *pending.popleft())


def _result(
    benchmark: Benchmark, problem: Problem, programs: Sequence[str], checks: Mapping[str, Future[Verdicts]]
) -> TaskResult:
    results = [checks[program].result() for program in programs]
    verdicts, tests = list(map(first_failure, results)), benchmark.tests[problem]
    return TaskResult(
        task_id=problem.id,
        source=problem.source,
        statuses=tuple(str(verdict.status) for verdict in verdicts),
        details=tuple(verdict.detail for verdict in verdicts),
        failures=tuple(_failure(tests, result) for result in results),
    )


def _failure(tests: Sequence[Test] | None, verdicts: Verdicts) -> Failure | None:
    judged = zip(tests or (), verdicts.tests, strict=False)
    return next((Failure(t.call, t.expected, verdict.value) for t, verdict in judged if not verdict.passed), None)


def _unknown_limits(problem: Problem) -> Limits:
    seconds = problem.seconds or LIVE_SECONDS
    whole = Limits().load_seconds + (len(problem.golden_tests) or _MOST_CHECKED) * seconds
    return Limits(memory_mb=MEMORY_MB, call_seconds=seconds, program_seconds=whole)


def _limits(reference_seconds: float) -> Limits:
    allowed = min(LONGEST_CHECK, SLOWER * reference_seconds)
    call = max(SHORTEST_CALL, allowed)
    quick = Limits(memory_mb=MEMORY_MB, call_seconds=call)
    return replace(quick, program_seconds=max(quick.load_seconds, 2 * call))
