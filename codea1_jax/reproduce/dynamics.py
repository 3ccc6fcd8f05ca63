from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from codea1_jax.common.files import read_lines
from codea1_jax.reproduce.experiments import DYNAMICS, Table
from codea1_jax.reproduce.results import Cell, Line, Result, mean
from codea1_jax.run.telemetry import METRICS_FILE

COUNTS = ("tokens", "book/added", "book/removed")  # all other metrics are shares
SHARE = 5  # the beginning and the end of a run are this part of its steps


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
