import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codea1_jax.common.files import blamed_on_file, read_lines
from codea1_jax.run.telemetry import rollout_steps, rollouts_path

MAX_STEPS = 12


@dataclass(frozen=True)
class RecordedStep:
    step: int
    recorded: int
    questions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Rollouts:
    recorded_steps: int
    steps: tuple[RecordedStep, ...]


def choose_rollouts(run_dir: Path, max_bytes: int) -> Rollouts:
    """Chooses questions that make at most `max_bytes` of JSON, each whole or not at all.

    At most `MAX_STEPS` evenly spaced steps, first and last among them, get equal shares. A step's share goes to the
    last step's questions first, so that one can follow them through training.
    """
    recorded = rollout_steps(run_dir)
    if not recorded:
        return Rollouts(0, ())
    *earlier, last = evenly_spaced(recorded, MAX_STEPS)
    share = max_bytes // (len(earlier) + 1)
    followed: set[str] = set()
    steps: list[RecordedStep] = []
    for step in (last, *earlier):
        path = rollouts_path(run_dir, step)
        with blamed_on_file(path):
            questions = read_lines(path)
            followed = followed or {question["question_id"] for question in questions}
            steps.append(_fitting(step, questions, followed, share))
    steps.append(steps.pop(0))
    return Rollouts(len(recorded), tuple(step for step in steps if step.questions))


def evenly_spaced(items: Sequence[int], count: int) -> list[int]:
    if len(items) <= count:
        return list(items)
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def _fitting(step: int, questions: Sequence[Mapping[str, Any]], first: Set[str], max_bytes: int) -> RecordedStep:
    kept, used = set(), 0
    for i in sorted(range(len(questions)), key=lambda i: (questions[i]["question_id"] not in first, i)):
        size = len(json.dumps(questions[i], separators=(",", ":"), allow_nan=False))
        if used + size <= max_bytes:
            kept.add(i)
            used += size
    return RecordedStep(step, len(questions), tuple(questions[i] for i in sorted(kept)))
