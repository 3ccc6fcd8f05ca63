"""Figures as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table


def results_table(benchmarks: Mapping[str, Mapping[str, Any]]) -> Table:
    """One line a benchmark, one column a figure, in percent with its 95% interval."""
    figures = list(dict.fromkeys(name for found in benchmarks.values() for name in found))
    table = Table()
    table.add_column("")
    for name in figures:
        table.add_column(name.replace("_at_", "@").replace("_", " "), justify="right")
    for benchmark, found in benchmarks.items():
        table.add_row(benchmark, *(_cell(found.get(name)) for name in figures))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{value['value']:.2f} [{value['low']:.1f}, {value['high']:.1f}]"
    return "" if value is None else str(value)
