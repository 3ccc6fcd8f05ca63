"""What a training run logged, and the figures of tables that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from codea1_jax.common.files import read_lines
from codea1_jax.reproduce.forgetting import forgetting
from codea1_jax.run.telemetry import METRICS_FILE

COUNTS = ("tokens", "book/added", "book/removed")  # all other metrics are shares
SHARE = 5  # the beginning and the end of a run are this part of its steps


def read_steps(directory: Path) -> list[dict[str, float]]:
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


def both_ends(values: Sequence[float]) -> tuple[float, float]:
    """The means of the first and of the last fifth. Raises StatisticsError for no values."""
    part = max(1, len(values) // SHARE)
    return fmean(values[:part]), fmean(values[-part:])


def last_evaluation(directory: Path, name: str) -> float | None:
    """A figure of a run's last evaluation, in percent; None if it has not that figure."""
    return [line for line in read_lines(directory / METRICS_FILE) if line["kind"] == "eval"][-1].get(f"eval/{name}")


def _at_the_end(directory: Path, metric: str) -> float | None:
    values = [step[metric] for step in read_steps(directory) if metric in step]
    return both_ends(values)[1] if values else None


def _reward_above_truth(directory: Path) -> float | None:
    """The reward of programs at the end of training minus avg@n on held-out questions: it grows if roles collude."""
    reward, truth = _at_the_end(directory, "code/reward"), last_evaluation(directory, "avg_at_n")
    return None if reward is None or truth is None else reward - truth


OF_TRAINING: Mapping[str, Callable[[Path], float | None]] = {
    "relapse": lambda directory: _at_the_end(directory, "book/relapse"),
    "forgetting": forgetting,
    "reward_above_truth": _reward_above_truth,
}
"""Figures of a finished run that no evaluation gives, by the names of columns: in percent, None where it has none."""
