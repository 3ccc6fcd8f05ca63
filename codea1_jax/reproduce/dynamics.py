"""Training dynamics: figures by training step, means over seeds with their intervals; and as curves to be drawn."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from codea1_jax.files import read_lines
from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.experiments import Table
from codea1_jax.reproduce.results import Cell, Line, Mean, Result, mean
from codea1_jax.run.telemetry import METRICS_FILE

WIDTH, HEIGHT, LEFT = 520, 200, 44  # pixels of a chart: its curves, and room for the scale
SHARE = 5  # the beginning and the end of a run are this part of its steps


@dataclass(frozen=True)
class Curves:
    """One figure of every row that has it, step by step from the first, over seeds."""

    title: str
    lines: Mapping[str, tuple[Mean, ...]]


@dataclass(frozen=True)
class Drawn:
    """A row's curve as SVG has it: the points of its means, and of its band there and back.

    series: the row's number, the same in every chart.
    """

    name: str
    series: int
    line: str
    band: str


@dataclass(frozen=True)
class Chart:
    """Curves on common scales. steps: how many; ticks: heights and values of the scale."""

    title: str
    steps: int
    lines: tuple[Drawn, ...]
    ticks: tuple[tuple[float, str], ...]


def read_dynamics(table: Table, seeds: Sequence[int]) -> tuple[Curves, ...]:
    """Every column of the table, from its rows' finished runs. Rows without the figure are left out."""
    runs = {row.name: [_steps(row.command(seed)) for seed in seeds] for row in table.rows}
    found = []
    for title, key in table.columns:
        having = {name: logged for name, logged in runs.items() if all(key in step for run in logged for step in run)}
        lines = {
            name: tuple(mean([step[key] for step in at_once]) for at_once in zip(*logged, strict=True))
            for name, logged in having.items()
        }
        found.append(Curves(title, lines))
    return tuple(found)


def _steps(command: Command) -> list[dict[str, float]]:
    """What a run logged of its steps; shares in percent. Of tests, nothing where none were asked for."""
    lines = [line for line in read_lines(command.directory / METRICS_FILE) if line["kind"] == "train"]
    asked = any(line.get("test/validity") for line in lines)
    return [
        {
            name: value if name.endswith("tokens") else 100 * value
            for name, value in line.items()
            if isinstance(value, float) and (asked or not (name.startswith("test/") or name == "pass_rate"))
        }
        for line in lines
    ]


def ends(table: Table, seeds: Sequence[int]) -> Result:
    """Every figure's mean over the last fifth of the steps; as gain its change since the first fifth, by seed."""

    def cell(row_runs: Sequence[Sequence[Mapping[str, float]]], key: str) -> Cell | None:
        if not all(key in step for run in row_runs for step in run):
            return None
        parts = [max(1, len(run) // SHARE) for run in row_runs]
        last = [fmean(step[key] for step in run[-part:]) for run, part in zip(row_runs, parts, strict=True)]
        first = [fmean(step[key] for step in run[:part]) for run, part in zip(row_runs, parts, strict=True)]
        return Cell(mean(last), mean([after - before for after, before in zip(last, first, strict=True)]))

    lines = []
    for row in table.rows:
        commands = [row.command(seed) for seed in seeds]
        runs = [_steps(command) for command in commands]
        cells = tuple(cell(runs, key) for _, key in table.columns)
        lines.append(Line(row.name, cells, tuple(command.directory.name for command in commands)))
    titles = tuple(title for title, _ in table.columns)
    return Result(table.name, table.title, titles, tuple(lines), tuple(seeds), "the first fifth of the steps")


def by_step(curves: Sequence[Curves]) -> str:
    """One line a figure, row and step, as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["figure", "row", "step", "mean", "margin"])
    for each in curves:
        for name, means in each.lines.items():
            for step, one in enumerate(means, start=1):
                margin = "" if one.margin is None else f"{one.margin:.4f}"
                writer.writerow([each.title, name, step, f"{one.value:.4f}", margin])
    return out.getvalue()


def charts(curves: Sequence[Curves]) -> tuple[Chart, ...]:
    """A chart of every metric that a row has."""
    names = list(dict.fromkeys(name for each in curves for name in each.lines))
    return tuple(_chart(each, names) for each in curves if each.lines)


def _chart(curves: Curves, names: Sequence[str]) -> Chart:
    means = [one for line in curves.lines.values() for one in line]
    low = min(one.value - (one.margin or 0.0) for one in means)
    high = max(one.value + (one.margin or 0.0) for one in means)
    steps = max(map(len, curves.lines.values()))

    def point(step: int, value: float) -> str:
        across = LEFT + WIDTH * step / max(steps - 1, 1)
        return f"{across:.1f},{height(value):.1f}"

    def height(value: float) -> float:
        return HEIGHT * (high - value) / ((high - low) or 1.0)

    def drawn(name: str, line: Sequence[Mean]) -> Drawn:
        upper = [point(step, one.value + (one.margin or 0.0)) for step, one in enumerate(line)]
        lower = [point(step, one.value - (one.margin or 0.0)) for step, one in enumerate(line)]
        middle = [point(step, one.value) for step, one in enumerate(line)]
        return Drawn(name, 1 + names.index(name), " ".join(middle), " ".join([*upper, *reversed(lower)]))

    ticks = tuple((round(height(value), 1), f"{value:.0f}") for value in (low, (low + high) / 2, high))
    return Chart(curves.title, steps, tuple(drawn(name, line) for name, line in curves.lines.items()), ticks)
