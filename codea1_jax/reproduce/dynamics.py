"""Training dynamics: figures by training step, means over seeds with their intervals; and as curves to be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codea1_jax.reproduce.experiments import Table, TableRow
from codea1_jax.reproduce.published import Curve, Published
from codea1_jax.reproduce.results import Cell, Line, Mean, Result, mean
from codea1_jax.reproduce.training import COUNTS, both_ends, read_steps


@dataclass(frozen=True)
class Curves:
    """One figure of every row that has it, by step from 1, where all its seeds have it; and the paper's, by row.

    unit: as the report calls it.
    """

    title: str
    unit: str
    lines: Mapping[str, Mapping[int, Mean]]
    paper: Mapping[str, Curve]


def read_dynamics(
    table: Table, seeds: Sequence[int], paper: Published, *, comparable_counts: bool = True
) -> tuple[Curves, ...]:
    """Every curve of the table, from its rows' finished runs. Rows without the figure are left out.

    comparable_counts: whether runs have as many questions a step as the paper's, whose counts are drawn only then.
    """
    runs = {row.name: _runs(row, seeds) for row in table.rows}
    found = []
    for title, key in table.curves:
        lines = {name: line for name, logged in runs.items() if (line := _by_step(logged, key))}
        drawn = comparable_counts or not key.endswith(COUNTS)
        published = {name: curve for name, curve in paper.curves.get(title, {}).items() if drawn and name in lines}
        found.append(Curves(title, "count" if key.endswith(COUNTS) else "%", lines, published))
    return tuple(found)


def _runs(row: TableRow, seeds: Sequence[int]) -> list[list[dict[str, float]]]:
    """What the row's runs logged; none if it is not trained."""
    return [read_steps(run.directory) for seed in seeds if (run := row.run(seed)) is not None]


def _by_step(runs: Sequence[Sequence[Mapping[str, float]]], key: str) -> dict[int, Mean]:
    """The means of the steps at which every run has the figure."""
    at_once = enumerate(zip(*runs, strict=True), start=1)
    return {step: mean([run[key] for run in each]) for step, each in at_once if all(key in run for run in each)}


def ends(table: Table, seeds: Sequence[int]) -> Result:
    """Every figure's mean over the last fifth of the steps that have it; as gain its change since the first fifth."""

    def cell(runs: Sequence[Sequence[Mapping[str, float]]], key: str) -> Cell | None:
        values = [[step[key] for step in run if key in step] for run in runs]
        if not values or not all(values):
            return None
        ends = [both_ends(run) for run in values]
        return Cell(mean([last for _, last in ends]), mean([last - first for first, last in ends]))

    lines = []
    for row in table.rows:
        runs = _runs(row, seeds)
        names = tuple(command.directory.name for seed in seeds for command in row.commands(seed))
        lines.append(Line(row.name, tuple(cell(runs, key) for _, key in table.curves), names))
    titles = tuple(title for title, _ in table.curves)
    return Result(table.name, table.title, titles, tuple(lines), tuple(seeds), "the first fifth of the steps")


def charts(curves: Sequence[Curves]) -> list[dict[str, Any]]:
    """A chart of every metric that a row has, as the report's `chart` takes it; a row has one style in all of them."""
    styles = {name: i % 6 for i, name in enumerate(dict.fromkeys(name for each in curves for name in each.lines))}
    return [
        {
            "title": each.title,
            "unit": each.unit,
            "series": [
                *(
                    _series(f"{row}, the paper's", styles[row], _stretched(curve, each)) | {"faint": True}
                    for row, curve in each.paper.items()
                ),
                *(_series(row, styles[row], line) for row, line in each.lines.items()),
            ],
        }
        for each in curves
        if each.lines
    ]


def _series(label: str, style: int, line: Mapping[int, Mean]) -> dict[str, Any]:
    means = line.values()
    low, high = [m.value - (m.margin or 0.0) for m in means], [m.value + (m.margin or 0.0) for m in means]
    bounds = {"low": low, "high": high} if any(m.margin for m in means) else {}
    return {"label": label, "style": style, "steps": list(line), "values": [m.value for m in means]} | bounds


def _stretched(curve: Curve, curves: Curves) -> dict[int, Mean]:
    """The paper's points over as many steps as ours, however many its runs have."""
    last = max(step for line in curves.lines.values() for step in line)
    return {1 + round((step - 1) * (last - 1) / (curve[-1][0] - 1)): Mean(value, None) for step, value in curve}
