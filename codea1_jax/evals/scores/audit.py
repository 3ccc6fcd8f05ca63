"""What a benchmark's checks, or a dataset's golden tests, are worth: which of them pass programs that solve nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from codea1_jax.evals.scores.benchmark import Benchmark
from codea1_jax.evals.scores.code import check_samples
from sandbox import Judge, VerdictStatus

_FIRST = "next(iter((*args, *named.values())), None)"
# What each trivial program does, by what messages call it.
TRIVIAL: Mapping[str, tuple[str, ...]] = {
    **{f"return {value}": (f"return {value}",) for value in ("None", "[]", "{}", '""', "0")},
    "return inf": ('return float("inf")',),
    "return nan": ('return float("nan")',),
    "return an empty array": ("import numpy", "return numpy.array([])"),
    "return the first argument": (f"return {_FIRST}",),
    "empty the arguments": (
        "for value in (*args, *named.values()):",
        "    if hasattr(value, 'clear'):",
        "        value.clear()",
        f"return {_FIRST}",
    ),
}


@dataclass(frozen=True)
class Audited:
    """A problem and the trivial programs, by their names, that pass its whole check."""

    task_id: str
    source: str
    passing: tuple[str, ...]


def audit(benchmark: Benchmark, judge: Judge, progress: Callable[[int, int], None]) -> Iterator[Audited]:
    """Every sound problem in order. Raises SandboxError if the judge fails."""
    drawn = ((problem, trivial_programs(problem.entry_point)) for problem in benchmark.problems)
    progress(0, len(benchmark.problems))
    for done, result in enumerate(check_samples(benchmark, drawn, judge), start=1):
        statuses = zip(TRIVIAL, result.statuses, strict=True)
        yield Audited(
            result.task_id, result.source, tuple(name for name, status in statuses if status == VerdictStatus.PASSED)
        )
        progress(done, len(benchmark.problems))


def trivial_programs(entry_point: str) -> tuple[str, ...]:
    """The programs of `TRIVIAL`, in its order, as functions of that name."""
    head = f"def {entry_point}(*args, **named):\n    "
    return tuple(head + "\n    ".join(lines) + "\n" for lines in TRIVIAL.values())
