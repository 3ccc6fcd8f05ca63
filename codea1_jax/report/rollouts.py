"""Which rollouts go into a report: evenly spaced steps, and questions followed through all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from codea1_jax.report.recorded import LeaveOut, leave_out, read_objects
from codea1_jax.run.telemetry import rollout_steps, rollouts_path

MAX_STEPS = 12
READ_BYTES = 1_000_000_000


@dataclass(frozen=True)
class StepRollouts:
    """One step's questions, as embedded, and how many were recorded."""

    step: int
    recorded: int
    questions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Rollouts:
    """What is embedded of a run's rollouts, and how many steps were recorded."""

    recorded_steps: int
    steps: tuple[StepRollouts, ...]


def choose_rollouts(run_dir: Path, max_bytes: int) -> Rollouts:
    """Chooses questions that make at most `max_bytes` of JSON, each whole or not at all.

    Two thirds go in equal shares to at most `MAX_STEPS` evenly spaced steps, first and last among them. The
    rest goes to the last step's questions at earlier steps, so that one can follow them through training.
    """
    recorded = rollout_steps(run_dir)
    if not recorded:
        return Rollouts(0, ())
    sized = {step: _sizes(run_dir, step) for step in _affordable(run_dir, recorded)}
    followed = [question for question, _ in sized[recorded[-1]]]
    spread = evenly_spaced(list(sized), MAX_STEPS)
    share = 2 * max_bytes // 3 // len(spread)
    chosen = {(step, i) for step in spread for i in _fitting(sized[step], set(followed), share)}
    chosen |= _follow(sized, followed, chosen, max_bytes - sum(sized[step][i][1] for step, i in chosen))
    steps = sorted({step for step, _ in chosen})
    return Rollouts(
        len(recorded),
        tuple(StepRollouts(step, len(sized[step]), _take(run_dir, step, chosen)) for step in steps),
    )


def _affordable(run_dir: Path, steps: Sequence[int]) -> list[int]:
    """As many evenly spaced steps as can be read in reasonable time."""
    mean_bytes = fmean(rollouts_path(run_dir, step).stat().st_size for step in steps)
    return evenly_spaced(steps, max(MAX_STEPS, int(READ_BYTES / max(1, mean_bytes))))


def evenly_spaced(items: Sequence[int], count: int) -> list[int]:
    """`count` of the items, or all if there are no more, including the first and the last."""
    if len(items) <= count:
        return list(items)
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def _fitting(sized: Sequence[tuple[str, int]], first: Set[str], max_bytes: int) -> set[int]:
    """Positions of the questions to keep: those of `first`, then the others in order, while they fit."""
    kept, used = set(), 0
    for position in sorted(range(len(sized)), key=lambda i: (sized[i][0] not in first, i)):
        size = sized[position][1]
        if used + size <= max_bytes:
            kept.add(position)
            used += size
    return kept


def _follow(
    sized: Mapping[int, Sequence[tuple[str, int]]],
    followed: Sequence[str],
    chosen: Set[tuple[int, int]],
    max_bytes: int,
) -> set[tuple[int, int]]:
    """Where else the followed questions came up, question by question, while they fit."""
    places: dict[str, list[tuple[int, int]]] = {}
    for step, questions in sized.items():
        for i, (question, _) in enumerate(questions):
            places.setdefault(question, []).append((step, i))
    added, used = set(), 0
    for step, i in (place for question in followed for place in places[question]):
        size = sized[step][i][1]
        if (step, i) not in chosen and used + size <= max_bytes:
            added.add((step, i))
            used += size
    return added


def _take(run_dir: Path, step: int, chosen: Set[tuple[int, int]]) -> tuple[Mapping[str, Any], ...]:
    questions = _questions(run_dir, step, damaged=lambda _: None)  # which was named when the sizes were taken
    return tuple(question for i, question in enumerate(questions) if (step, i) in chosen)


def _sizes(run_dir: Path, step: int) -> list[tuple[str, int]]:
    """Every question's id and its size in bytes of JSON."""
    return [(question["question_id"], _size(question)) for question in _questions(run_dir, step)]


def _questions(run_dir: Path, step: int, damaged: LeaveOut = leave_out) -> Iterator[Mapping[str, Any]]:
    path = rollouts_path(run_dir, step)
    for question in read_objects(path, damaged):
        if "question_id" in question and "programs" in question:
            yield question
        else:
            damaged(f"{path}: a line that does not hold a question and its programs")


def _size(question: Mapping[str, Any]) -> int:
    return len(json.dumps(question, separators=(",", ":")))
