"""What a benchmark's checks, or a dataset's golden tests, are worth: which of them pass programs that solve nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from codea1_jax.common.words import audit_line
from codea1_jax.evals.benchmark import Benchmark
from codea1_jax.evals.code import check_samples
from codea1_jax.evals.journal import Progress
from sandbox import Judge, Status, Task

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


def audit(benchmark: Benchmark, judge: Judge, progress: Progress) -> dict[str, Any]:
    """How many problems of each benchmark were audited, and how many of them pass a trivial program; and which, by id.

    Only functions that are sound are. Raises SandboxError if the judge fails.
    """
    passed: dict[str, list[str]] = {}
    unsafe: Counter[str] = Counter()
    functions = [problem for problem in benchmark.problems if problem.task is Task.FUNCTION]
    drawn = ((problem, trivial_programs(problem.entry_point)) for problem in functions)
    progress(0, len(functions))
    for done, result in enumerate(check_samples(benchmark, drawn, judge), start=1):
        statuses = zip(TRIVIAL, result.statuses, strict=True)
        if passing := [name for name, status in statuses if status == Status.PASSED]:
            passed[result.task_id] = passing
            unsafe[result.source] += 1
        progress(done, len(functions))
    sound = Counter(problem.source for problem in functions)
    audited = {source: {"problems": count, "passed_by_trivial": unsafe[source]} for source, count in sound.items()}
    return {"audited": audited, "passed_by_trivial": passed}


def audit_lines(audited: Mapping[str, Mapping[str, int]], passed: Mapping[str, Sequence[str]]) -> list[str]:
    """The same for people."""
    lines = [f"passed by a program that solves nothing: {task}: {', '.join(names)}" for task, names in passed.items()]
    return lines + [audit_line(source, figures) for source, figures in audited.items()]


def trivial_programs(entry_point: str) -> tuple[str, ...]:
    """The programs of `TRIVIAL`, in its order, as functions of that name."""
    head = f"def {entry_point}(*args, **named):\n    "
    return tuple(head + "\n    ".join(lines) + "\n" for lines in TRIVIAL.values())
