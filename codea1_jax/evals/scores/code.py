"""How many of a Code LLM's programs pass a benchmark's own checks: avg@n and pass@k, with their intervals.

The figures are over all problems of a benchmark, as in the paper's tables: those that cannot be judged, and those
without samples, count as failed. `avg_at_n_sound` is over the problems that were judged.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from codea1_jax.evals.answers.requests import program_requests
from codea1_jax.evals.scores.benchmark import Benchmark, submit_check
from codea1_jax.evals.scores.metrics import Estimate, bounded, estimate, pass_at_k
from codea1_jax.game.players import Player
from codea1_jax.hosts.gather import gathered, is_mine
from data_pipeline import Problem
from sandbox import CheckResult, Judge, VerdictStatus

KS = (1, 2, 4, 5, 8, 10, 16, 32, 64, 100)


@dataclass(frozen=True)
class TaskResult:
    """How a problem's samples ended, in order; a detail explains why one did not pass."""

    task_id: str
    source: str
    statuses: tuple[str, ...]
    details: tuple[str, ...]

    @property
    def correct(self) -> int:
        """Samples that passed the whole check."""
        return self.statuses.count(VerdictStatus.PASSED)


Checks = tuple[Problem, Sequence[str], Mapping[str, Future[CheckResult]]]


def check_samples(
    benchmark: Benchmark, drawn: Iterable[tuple[Problem, Sequence[str]]], judge: Judge
) -> Iterator[TaskResult]:
    """Checks each problem's programs as they come, equal ones once; results in the same order.

    Raises SandboxError if the judge fails.
    """
    pending: deque[Checks] = deque()
    for problem, programs in drawn:
        pending.append(_submit(benchmark, problem, programs, judge))
        while pending and all(check.done() for check in pending[0][2].values()):
            yield _result(*pending.popleft())
    while pending:
        yield _result(*pending.popleft())


def evaluate_benchmark(
    player: Player, judge: Judge, benchmark: Benchmark, samples: int, stream: tuple[int, ...]
) -> dict[str, float]:
    """The player's avg@n and pass@k, by benchmark, in percent, with intervals. Raises SandboxError if the judge fails.

    The samples of a problem depend on `stream` and the problem alone. On several hosts, each checks its share.
    """
    mine = {
        i: _submit(benchmark, benchmark.problems[i], [each.program for each in written], judge)
        for i, written in player.programs(program_requests(benchmark.problems, samples, stream))
        if is_mine(i)
    }
    results = tuple(gathered(lambda: {i: _result(*checks) for i, checks in mine.items()}).values())
    metrics: dict[str, float] = {}
    for source, values in metrics_of(results, benchmark.sizes).items():
        for name, value in values.items():
            metrics |= bounded(f"eval/{source}/{name}", value)
    return metrics


def benchmark_metrics(benchmark: Benchmark, samples: int) -> tuple[str, ...]:
    """The names of what `evaluate_benchmark` gives, intervals left out."""
    names = ("avg_at_n", *(f"pass_at_{k}" for k in KS if k <= samples))
    sound = Counter(problem.source for problem in benchmark.problems)
    return tuple(
        f"eval/{source}/{name}"
        for source, count in sound.items()
        for name in (*names, *(("avg_at_n_sound",) if count < benchmark.sizes[source] else ()))
    )


def metrics_of(results: Sequence[TaskResult], sizes: Mapping[str, int]) -> dict[str, dict[str, Estimate]]:
    """avg@n and pass@k of every benchmark by its name, over the `sizes[name]` problems that it has.

    results: of problems that were judged, each with at least one sample.
    """
    by_source: dict[str, list[TaskResult]] = {}
    for result in results:
        by_source.setdefault(result.source, []).append(result)
    return {source: _metrics(members, sizes[source] - len(members)) for source, members in by_source.items()}


def _metrics(results: Sequence[TaskResult], unjudged: int) -> dict[str, Estimate]:
    counts = [(len(result.statuses), result.correct) for result in results]
    fewest = min(n for n, _ in counts)
    averages, failed = [c / n for n, c in counts], [0.0] * unjudged
    found = {"avg_at_n": estimate([*averages, *failed])}
    for k in KS:
        if k <= fewest:
            found[f"pass_at_{k}"] = estimate([*(pass_at_k(n, c, k) for n, c in counts), *failed])
    return found | ({"avg_at_n_sound": estimate(averages)} if unjudged else {})


def _submit(benchmark: Benchmark, problem: Problem, programs: Sequence[str], judge: Judge) -> Checks:
    limits = benchmark.limits[problem]
    return (
        problem,
        programs,
        {program: submit_check(judge, problem, program, limits) for program in dict.fromkeys(programs)},
    )


def _result(problem: Problem, programs: Sequence[str], checks: Mapping[str, Future[CheckResult]]) -> TaskResult:
    verdicts = {program: check.result().verdict for program, check in checks.items()}
    return TaskResult(
        task_id=problem.id,
        source=problem.source,
        statuses=tuple(str(verdicts[program].status) for program in programs),
        details=tuple(verdicts[program].detail for program in programs),
    )
