"""The results of a finished run: base against final, as `summary.json` and as a table."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

FIGURES = ("avg_at_n", "test_validity", "kill_rate", "pass_at_5", "mut_at_5", "mul")


def summarize(evaluations: Sequence[Mapping[str, Any]], seconds: Mapping[str, float], samples: int) -> dict[str, Any]:
    if not evaluations:
        return {"seconds": dict(seconds)}

    def figures(line: Mapping[str, Any]) -> dict[str, Any]:
        known = {name: line[f"eval/{name}"] for name in FIGURES if f"eval/{name}" in line}
        return {f"avg_at_{samples}" if name == "avg_at_n" else name: value for name, value in known.items()}

    return {
        "base": figures(evaluations[0]),
        "final": figures(evaluations[-1]),
        "conclusions": [*conclusions(evaluations[0], evaluations[-1])],
        "seconds": dict(seconds),
    }


def conclusions(first: Mapping[str, Any], last: Mapping[str, Any]) -> Iterator[str]:
    """Of each role, whether it answers held-out questions better at the end: programs by avg@n, tests by validity.

    A change differs from chance by the 95% intervals over questions of both evaluations, as if these were independent.
    Their questions are the same, which makes this cautious.
    """
    for name, of, right in (("avg_at_n", "programs", "correct"), ("test_validity", "tests", "valid")):
        names = [f"eval/{name}{end}" for end in ("", "_low", "_high")]
        if first is last or not first.keys() & last.keys() >= set(names):
            continue
        (before, *low), (after, *high) = ([line[each] for each in names] for line in (first, last))
        if before == after == 0:
            fix = "easier questions, or a stronger base model (model.pretrained)"
            yield f"None of the {of} is {right}, before training or after: it needs {fix}."
            continue
        change, margin = after - before, math.hypot(low[1] - low[0], high[1] - high[0]) / 2
        figures = f"{change:+.1f} ± {margin:.1f} points" if margin else f"{change:+.1f} points"
        if abs(change) > margin > 0:  # an interval of no width is that of a single question, or of questions all alike
            yield f"The {of} are {right} {'more' if change > 0 else 'less'} often: {figures}."
        else:
            yield f"Whether the {of} are {right} more often cannot be told from chance: {figures}."


def table(summary: Mapping[str, Any], trained: str) -> Table:
    base, final = summary["base"], summary["final"]
    rows = Table(
        title="held-out questions, %", caption="\n".join(summary.get("conclusions", ())), caption_justify="left"
    )
    rows.add_column("")
    for name in base:
        rows.add_column(name.replace("_at_", "@").replace("_", " "), justify="right")
    rows.add_column("seconds", justify="right")
    rows.add_row("base", *(f"{value:.1f}" for value in base.values()), f"{summary['seconds']['before_training']:.0f}")
    rows.add_row(trained, *(f"{value:.1f}" for value in final.values()), f"{summary['seconds']['total']:.0f}")
    return rows
