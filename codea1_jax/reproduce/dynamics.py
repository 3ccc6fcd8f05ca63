"""Training dynamics: figures by training step, means over seeds with their intervals; and as curves to be drawn."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from codea1_jax.common.files import read_lines
from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.experiments import Row, Table
from codea1_jax.reproduce.published import Curve, Published
from codea1_jax.reproduce.results import Cell, Line, Mean, Result, mean
from codea1_jax.run.telemetry import METRICS_FILE

WIDTH, HEIGHT, LEFT = 520, 200, 44  # pixels of a chart: its curves, and room for the scale
COUNTS = ("tokens", "book/added", "book/removed")  # all other metrics are shares
SHARE = 5  # the beginning and the end of a run are this part of its steps


@dataclass(frozen=True)
class Curves:
    """One figure of every row that has it, by step from 1, where all its seeds have it; and the paper's, by row."""

    title: str
    lines: Mapping[str, Mapping[int, Mean]]
    paper: Mapping[str, Curve]


@dataclass(frozen=True)
class Drawn:
    """A row's curve as SVG has it: the points of its means, of its band there and back, and of the paper's curve.

    series: the row's number, the same in every chart.
    """

    name: str
    series: int
    line: str
    band: str
    paper: str


@dataclass(frozen=True)
class Chart:
    """Curves on common scales. steps: how many; ticks: heights and values of the scale."""

    title: str
    steps: int
    lines: tuple[Drawn, ...]
    ticks: tuple[tuple[float, str], ...]


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
        found.append(Curves(title, lines, published))
    return tuple(found)


def _runs(row: Row, seeds: Sequence[int]) -> list[list[dict[str, float]]]:
    """What the row's runs logged; none if it is not trained."""
    return [_steps(run) for seed in seeds if (run := row.run(seed)) is not None]


def _by_step(runs: Sequence[Sequence[Mapping[str, float]]], key: str) -> dict[int, Mean]:
    """The means of the steps at which every run has the figure."""
    at_once = enumerate(zip(*runs, strict=True), start=1)
    return {step: mean([run[key] for run in each]) for step, each in at_once if all(key in run for run in each)}


def _steps(command: Command) -> list[dict[str, float]]:
    """What a run logged of its steps; shares in percent. Of tests, nothing where none were asked for."""
    lines = [line for line in read_lines(command.directory / METRICS_FILE) if line["kind"] == "train"]
    asked = any(line.get("test/validity") for line in lines)
    return [
        {
            name: value if name.endswith(COUNTS) else 100 * value
            for name, value in line.items()
            if isinstance(value, float) and (asked or not name.startswith(("test/", "pass_rate", "book/")))
        }
        for line in lines
    ]


def ends(table: Table, seeds: Sequence[int]) -> Result:
    """Every figure's mean over the last fifth of the steps that have it; as gain its change since the first fifth."""

    def cell(runs: Sequence[Sequence[Mapping[str, float]]], key: str) -> Cell | None:
        values = [[step[key] for step in run if key in step] for run in runs]
        if not values or not all(values):
            return None
        parts = [max(1, len(run) // SHARE) for run in values]
        last = [fmean(run[-part:]) for run, part in zip(values, parts, strict=True)]
        first = [fmean(run[:part]) for run, part in zip(values, parts, strict=True)]
        return Cell(mean(last), mean([after - before for after, before in zip(last, first, strict=True)]))

    lines = []
    for row in table.rows:
        runs = _runs(row, seeds)
        names = tuple(command.directory.name for seed in seeds for command in row.commands(seed))
        lines.append(Line(row.name, tuple(cell(runs, key) for _, key in table.curves), names))
    titles = tuple(title for title, _ in table.curves)
    return Result(table.name, table.title, titles, tuple(lines), tuple(seeds), "the first fifth of the steps")


def by_step(curves: Sequence[Curves]) -> str:
    """One line a figure, row and step, as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["figure", "row", "step", "mean", "margin"])
    for each in curves:
        for name, means in each.lines.items():
            for step, one in means.items():
                margin = "" if one.margin is None else f"{one.margin:.4f}"
                writer.writerow([each.title, name, step, f"{one.value:.4f}", margin])
    return out.getvalue()


def charts(curves: Sequence[Curves]) -> tuple[Chart, ...]:
    """A chart of every metric that a row has."""
    names = list(dict.fromkeys(name for each in curves for name in each.lines))
    return tuple(_chart(each, names) for each in curves if each.lines)


def _chart(curves: Curves, names: Sequence[str]) -> Chart:
    means = [one for line in curves.lines.values() for one in line.values()]
    published = [value for curve in curves.paper.values() for _, value in curve]
    low = min([*(one.value - (one.margin or 0.0) for one in means), *published])
    high = max([*(one.value + (one.margin or 0.0) for one in means), *published])
    steps = max(step for line in curves.lines.values() for step in line)

    def point(step: int | float, value: float) -> str:
        across = LEFT + WIDTH * (step - 1) / max(steps - 1, 1)
        return f"{across:.1f},{height(value):.1f}"

    def height(value: float) -> float:
        return HEIGHT * (high - value) / ((high - low) or 1.0)

    def drawn(name: str, line: Mapping[int, Mean]) -> Drawn:
        upper = [point(step, one.value + (one.margin or 0.0)) for step, one in line.items()]
        lower = [point(step, one.value - (one.margin or 0.0)) for step, one in line.items()]
        middle = [point(step, one.value) for step, one in line.items()]
        curve = curves.paper.get(name, ())
        # The published runs are as wide as ours, however many steps each of them has.
        stretch = (steps - 1) / (curve[-1][0] - 1) if curve else 0.0
        behind = [point(1 + (step - 1) * stretch, value) for step, value in curve]
        band = " ".join([*upper, *reversed(lower)])
        return Drawn(name, 1 + names.index(name), " ".join(middle), band, " ".join(behind))

    ticks = tuple((round(height(value), 1), f"{value:.0f}") for value in (low, (low + high) / 2, high))
    return Chart(curves.title, steps, tuple(drawn(name, line) for name, line in curves.lines.items()), ticks)
