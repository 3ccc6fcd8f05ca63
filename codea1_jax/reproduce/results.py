"""From finished runs to a table: means over seeds with intervals, and differences paired by seed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from codea1_jax.files import read_lines
from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.experiments import Table
from codea1_jax.run.telemetry import METRICS_FILE

# The 97.5% quantile of Student's t distribution with 1, 2, ... degrees of freedom.
T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


@dataclass(frozen=True)
class Mean:
    """A mean over seeds and the half width of its 95% interval by Student's t; no width for a single seed."""

    value: float
    margin: float | None


@dataclass(frozen=True)
class Cell:
    """A row's figure in one column, and its difference to what the table compares with, paired by seed."""

    mean: Mean
    gain: Mean | None

    @property
    def certain(self) -> bool:
        """Whether the difference's interval lies on one side of zero."""
        return self.gain is not None and self.gain.margin is not None and abs(self.gain.value) > self.gain.margin


@dataclass(frozen=True)
class Line:
    """A row with its figures; one is None where the row's runs have not that figure. `runs` are their directories."""

    name: str
    cells: tuple[Cell | None, ...]
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """A finished table, over `seeds`. against: what gains are differences to."""

    name: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    seeds: tuple[int, ...]
    against: str


def mean(values: Sequence[float]) -> Mean:
    """The mean and its 95% interval; beyond 15 degrees of freedom with the quantile of 15, which is wider.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("there is nothing to take a mean of")
    if len(values) == 1:
        return Mean(values[0], None)
    quantile = T975[min(len(values) - 1, len(T975)) - 1]
    return Mean(fmean(values), quantile * stdev(values) / math.sqrt(len(values)))


def read_table(table: Table, seeds: Sequence[int]) -> Result:
    """The table's figures from its finished runs. Raises FileNotFoundError if one is not finished."""
    found = {row.name: [figures(row.command(seed)) for seed in seeds] for row in table.rows}
    first = table.rows[0].name

    def cell(name: str, key: str) -> Cell | None:
        values, base = _column(found[name], key), _column(found[first], key)
        if values is None:
            return None
        if name == first or base is None:
            return Cell(mean(values), None)
        return Cell(mean(values), mean([value - before for value, before in zip(values, base, strict=True)]))

    lines = tuple(
        Line(
            row.name,
            tuple(cell(row.name, key) for _, key in table.columns),
            tuple(row.command(seed).directory.name for seed in seeds),
        )
        for row in table.rows
    )
    return Result(table.name, table.title, tuple(name for name, _ in table.columns), lines, tuple(seeds), first)


def _column(runs: Sequence[Mapping[str, float]], key: str) -> list[float] | None:
    """One figure of every run; None if a run has it not."""
    return [run[key] for run in runs] if all(key in run for run in runs) else None


def figures(command: Command) -> dict[str, float]:
    """What a finished command measured, in percent: a run's last evaluation, or an evaluation's own figures."""
    read: Callable[[Command], dict[str, float]] = _trained if command.arguments[0] == "train" else _evaluated
    return read(command)


def _trained(command: Command) -> dict[str, float]:
    last = [line for line in read_lines(command.directory / METRICS_FILE) if line["kind"] == "eval"][-1]
    return {name.removeprefix("eval/"): value for name, value in last.items() if name.startswith("eval/")}


def _evaluated(command: Command) -> dict[str, float]:
    summary: dict[str, Any] = json.loads((command.directory / command.done).read_text())
    [found] = summary["benchmarks"].values()
    return {name: value["value"] for name, value in found.items() if isinstance(value, dict)}
