"""A run directory, read for the report. Whatever a young run does not have yet is simply empty."""

import json
import math
import os
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import blamed_on_file, read_lines
from codea1_jax.run.rundir import CONFIG_FILE, SUMMARY_FILE
from codea1_jax.run.telemetry import METRICS_FILE, VERSIONS_FILE, rollout_steps, rollouts_path

MAX_POINTS, MAX_STEPS = 1000, 12

Columns = dict[str, list[float | None]]


@dataclass(frozen=True)
class RecordedStep:
    step: int
    recorded: int
    questions: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Rollouts:
    recorded_steps: int
    steps: tuple[RecordedStep, ...]


@dataclass(frozen=True)
class Run:
    """What one run contributes. `metrics` holds, for every kind of line, equally long columns by name.

    eval_samples: programs of a question in an evaluation.
    """

    name: str
    group: str
    total_steps: int | None
    eval_samples: int | None
    config: str
    versions: Mapping[str, Any]
    summary: Mapping[str, Any]
    metrics: Mapping[str, Columns]
    rollouts: Rollouts


def read_runs(run_dirs: Sequence[Path], rollout_bytes: int) -> list[Run]:
    """Reads run directories; `rollout_bytes` of JSON are shared among their rollouts.

    Runs whose configurations differ only in their seed get the same `group`. Raises UserError for a path that is not
    the directory of a run, or a file of it that is damaged.
    """
    paths = [path.resolve() for path in run_dirs]
    for path in paths:
        if not path.is_dir():
            raise UserError(f"no run directory at {path}")
        if not ((path / CONFIG_FILE).exists() or (path / METRICS_FILE).exists()):
            raise UserError(f"{path} is not a run: it holds neither {CONFIG_FILE} nor {METRICS_FILE}")
    names = _names(paths)
    texts = [_text(path / CONFIG_FILE) for path in paths]
    configs = []
    for path, text in zip(paths, texts, strict=True):
        with blamed_on_file(path / CONFIG_FILE):
            configs.append(yaml.safe_load(text))
            json.dumps(configs[-1], sort_keys=True, default=str)
    groups = _groups(names, configs)
    return [
        Run(
            name=name,
            group=group,
            total_steps=_setting(config, "train", "steps"),
            eval_samples=_setting(config, "eval", "samples"),
            config=text,
            versions=_document(path / VERSIONS_FILE),
            summary=_document(path / SUMMARY_FILE),
            metrics=_metrics(path / METRICS_FILE),
            rollouts=choose_rollouts(path, rollout_bytes // len(paths)),
        )
        for path, name, group, text, config in zip(paths, names, groups, texts, configs, strict=True)
    ]


def _names(paths: Sequence[Path]) -> list[str]:
    if len(paths) == 1:
        return [paths[0].parent.name if paths[0].name == "run" else paths[0].name]  # as `codea1 init` lays it out
    common = os.path.commonpath(paths)
    return [os.path.relpath(path, common) for path in paths]


def _groups(names: Sequence[str], configs: Sequence[Any]) -> list[str]:
    keys = [
        json.dumps(_seedless(config), sort_keys=True, default=str) if config else f"run {name}"
        for name, config in zip(names, configs, strict=True)
    ]
    members = {key: [name for name, other in zip(names, keys, strict=True) if other == key] for key in keys}
    labels = {key: _label(group) for key, group in members.items()}
    clash = len(set(labels.values())) < len(labels)
    return [members[key][0] if clash else labels[key] for key in keys]


def _label(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    common = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    prefix = "".join(letters[0] for letters in common)
    return re.sub(r"[-_/.]*(seed|s)?[-_/.]*\d*$", "", prefix) or names[0]


def _seedless(config: Any) -> Any:
    if isinstance(config, dict):
        return {key: _seedless(value) for key, value in config.items() if key not in ("seed", "directory")}
    return config


def _setting(config: Any, section: str, name: str) -> int | None:
    settings = config.get(section) if isinstance(config, dict) else None
    value = settings.get(name) if isinstance(settings, dict) else None
    return value if isinstance(value, int) else None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _document(path: Path) -> Mapping[str, Any]:
    with blamed_on_file(path):
        document = json.loads(_text(path) or "{}")
        json.dumps(document, allow_nan=False)  # as the page has it
        return document


def _metrics(path: Path) -> dict[str, Columns]:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    with blamed_on_file(path):
        for line in read_lines(path) if path.exists() else ():
            by_kind.setdefault(line["kind"], []).append(line)
        return {kind: _columns(same) for kind, same in by_kind.items()}


def _columns(lines: Sequence[Mapping[str, Any]]) -> Columns:
    """Columns of at most `MAX_POINTS` evenly spaced lines; six digits are more than a curve shows."""
    lines = [lines[i] for i in evenly_spaced(range(len(lines)), MAX_POINTS)]
    names = dict.fromkeys(name for line in lines for name in line if name != "kind")
    return {name: [_rounded(line.get(name), 12 if name == "time" else 6) for line in lines] for name in names}


def _rounded(value: float | int | None, digits: int) -> float | None:
    return float(f"{value:.{digits}g}") if value is not None and math.isfinite(value) else None


def choose_rollouts(run_dir: Path, max_bytes: int) -> Rollouts:
    """Chooses questions that make at most `max_bytes` of JSON, each whole or not at all.

    At most `MAX_STEPS` evenly spaced steps, first and last among them, get equal shares. A step's share goes to the
    last step's questions first, so that one can follow them through training.
    """
    recorded = [step for step in rollout_steps(run_dir) if rollouts_path(run_dir, step).stat().st_size]
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
