"""Which rollouts go into a report: evenly spaced steps, and in each the questions that fit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codea1_jax.run.telemetry import rollout_steps, rollouts_path

MAX_STEPS = 12


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
    """Takes at most `MAX_STEPS` evenly spaced steps, first and last among them, in `max_bytes` of JSON.

    Every step gets the same share. Questions seen in most of these steps come first, so that one can follow a
    question through training; a question is embedded whole or not at all.
    """
    recorded = rollout_steps(run_dir)
    steps = evenly_spaced(recorded, MAX_STEPS)
    sizes = {step: [(q["question_id"], _size(q)) for q in _questions(run_dir, step)] for step in steps}
    seen = Counter(question for sized in sizes.values() for question, _ in sized)
    chosen = tuple(
        StepRollouts(step, len(sizes[step]), tuple(_take(run_dir, step, _fitting(sizes[step], seen, share))))
        for step, share in ((step, max_bytes // len(steps)) for step in steps)
    )
    return Rollouts(len(recorded), chosen)


def evenly_spaced(items: Sequence[int], count: int) -> list[int]:
    """`count` of the items, or all if there are no more, including the first and the last."""
    if len(items) <= count:
        return list(items)
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def _fitting(sized: Sequence[tuple[str, int]], seen: Mapping[str, int], max_bytes: int) -> set[int]:
    """Positions of the questions to keep: the most often seen first, then in order, while they fit."""
    kept, used = set(), 0
    for position in sorted(range(len(sized)), key=lambda i: (-seen[sized[i][0]], i)):
        size = sized[position][1]
        if used + size <= max_bytes:
            kept.add(position)
            used += size
    return kept


def _take(run_dir: Path, step: int, positions: set[int]) -> Iterator[Mapping[str, Any]]:
    return (question for i, question in enumerate(_questions(run_dir, step)) if i in positions)


def _questions(run_dir: Path, step: int) -> Iterator[Mapping[str, Any]]:
    """Streams a file that may hold far more than a page can."""
    with rollouts_path(run_dir, step).open(encoding="utf-8") as file:
        for line in file:
            yield _share_prompts(json.loads(line))


def _share_prompts(question: dict[str, Any]) -> dict[str, Any]:
    """Says each prompt once: a question's programs have one prompt, and so have a program's suites."""
    programs = question["programs"]
    prompt = programs[0].get("prompt") if programs else None
    return {**question, "prompt": prompt, "programs": [_share_suite_prompt(program) for program in programs]}


def _share_suite_prompt(program: Mapping[str, Any]) -> dict[str, Any]:
    suites = program["suites"]
    shared = {name: value for name, value in program.items() if name != "prompt"}
    return {
        **shared,
        "suite_prompt": suites[0].get("prompt") if suites else None,
        "suites": [{name: value for name, value in suite.items() if name != "prompt"} for suite in suites],
    }


def _size(question: Mapping[str, Any]) -> int:
    return len(json.dumps(question, separators=(",", ":")))
