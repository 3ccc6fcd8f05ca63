"""From finished runs to a table: means over seeds with intervals, and differences paired by seed."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy.special import stdtrit

from codea1_jax.common.files import read_lines
from codea1_jax.reproduce.experiments import DYNAMICS, Figure, Table
from codea1_jax.reproduce.published import Published
from codea1_jax.run.telemetry import METRICS_FILE

COUNTS = ("tokens", "book/added", "book/removed")  # all other metrics are shares
SHARE = 5  # the beginning and the end of a run are this part of its steps


@dataclass(frozen=True)
class Mean:
    """A mean and the half width of its 95% interval, if there is one.

    Over seeds, the interval is Student's t. A single seed has that of its evaluation, which is over problems.
    """

    value: float
    margin: float | None


@dataclass(frozen=True)
class Cell:
    """A row's figure in one column, its difference to what the table compares with, paired by seed, and the paper's."""

    mean: Mean
    gain: Mean | None
    paper: float | None = None

    @property
    def surplus(self) -> float | None:
        return None if self.paper is None else self.mean.value - self.paper

    @property
    def certain(self) -> bool:
        return self.gain is not None and self.gain.margin is not None and abs(self.gain.value) > self.gain.margin


@dataclass(frozen=True)
class Line:
    name: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Result:
    name: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    seeds: tuple[int, ...]
    against: str


def mean(values: Sequence[float]) -> Mean:
    """The mean and its 95% interval. Raises ValueError for no values."""
    if len(values) == 1:
        return Mean(values[0], None)
    return Mean(fmean(values), float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / math.sqrt(len(values)))


def read_table(table: Table, seeds: Sequence[int], paper: Published, model: str) -> Result:
    """The table's figures from its finished runs, next to the paper's of `model`, if it has some.

    Raises FileNotFoundError if a run is not finished.
    """
    found = {
        row.name: [[read_column(figures) for figures in row.figures(seed)] for seed in seeds] for row in table.rows
    }
    first = table.rows[0].name

    def cell(name: str, column: int) -> Cell | None:
        measured = [seed[column] for seed in found[name]]
        known = [each for each in measured if each is not None]
        if len(known) < len(measured):
            return None
        before = [seed[column] for seed in found[first]]
        compared = [each.value - other.value for each, other in zip(known, before, strict=True) if other is not None]
        gain = mean(compared) if name != first and len(compared) == len(known) else None
        value = known[0] if len(known) == 1 else mean([each.value for each in known])
        return Cell(value, gain, paper.figure(model, name, table.columns[column]))

    columns = range(len(table.columns))
    lines = tuple(Line(row.name, tuple(cell(row.name, column) for column in columns)) for row in table.rows)
    return Result(table.name, table.title, table.columns, lines, tuple(seeds), first)


def read_column(figures: Sequence[Figure]) -> Mean | None:
    measured = [read_figure(figure) for figure in figures]
    known = [each for each in measured if each is not None]
    if not known or len(known) < len(measured):
        return None
    margins = [each.margin for each in known if each.margin is not None]
    margin = math.hypot(*margins) / len(known) if len(margins) == len(known) else None
    return Mean(fmean(each.value for each in known), margin)


def read_figure(figure: Figure) -> Mean | None:
    directory = figure.command.directory
    summary: dict[str, Any] = json.loads((directory / figure.command.done).read_text())
    if "benchmarks" not in summary:
        evaluations = [line for line in read_lines(directory / METRICS_FILE) if line["kind"] == "eval"]
        value = evaluations[-1].get(f"eval/{figure.key}")
        return None if value is None else Mean(value, None)
    measured = summary["benchmarks"]
    found = measured.get(figure.benchmark, {}) if figure.benchmark else next(iter(measured.values()))
    value = found.get(figure.key)
    return None if value is None else Mean(value["value"], (value["high"] - value["low"]) / 2)


# --- what training changes ----------------------------------------------------------------------------------


def _read_steps(directory: Path) -> list[dict[str, float]]:
    """What a run logged of its steps; shares in percent. Nothing about tests where none were asked for."""
    lines = [line for line in read_lines(directory / METRICS_FILE) if line["kind"] == "train"]
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
        ends = [(fmean(run[:part]), fmean(run[-part:])) for run in values for part in (max(1, len(run) // SHARE),)]
        return Cell(mean([last for _, last in ends]), mean([last - first for first, last in ends]))

    lines = []
    for row in table.rows:
        runs = [_read_steps(run.directory) for seed in seeds if (run := row.run(seed)) is not None]
        lines.append(Line(row.name, tuple(cell(runs, key) for key in DYNAMICS.values())))
    return Result(table.name, table.title, table.columns, tuple(lines), tuple(seeds), "the first fifth of the steps")
