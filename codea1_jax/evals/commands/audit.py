"""`codea1 data audit` and `codea1 eval code --audit`: the checks that programs pass which solve nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codea1_jax.common.words import audit_line
from codea1_jax.evals.scores.audit import audit
from codea1_jax.evals.scores.benchmark import Benchmark
from sandbox import Judge


def audit_results(benchmark: Benchmark, judge: Judge, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """How many problems of each benchmark were audited, and how many of them pass a trivial program; and which, by id.

    Raises SandboxError if the judge fails.
    """
    found = list(audit(benchmark, judge, progress))
    passing = Counter(each.source for each in found if each.passing)
    return {
        "audited": {
            source: {"problems": count, "passed_by_trivial": passing[source]}
            for source, count in Counter(each.source for each in found).items()
        },
        "passed_by_trivial": {each.task_id: list(each.passing) for each in found if each.passing},
    }


def audit_lines(audited: Mapping[str, Mapping[str, int]], passed: Mapping[str, Sequence[str]]) -> list[str]:
    """The same for people."""
    lines = [f"passed by a program that solves nothing: {task}: {', '.join(names)}" for task, names in passed.items()]
    return lines + [audit_line(source, figures) for source, figures in audited.items()]
