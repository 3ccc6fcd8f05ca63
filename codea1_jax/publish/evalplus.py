"""An evaluation's programs and verdicts as evalplus keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import read_lines
from codea1_jax.evals.code import SAMPLES_FILE
from codea1_jax.evals.journal import RESULTS_FILE, SUMMARY_FILE
from codea1_jax.evals.samples import task_name

_STATUSES = {"passed": "pass", "timed out": "timeout"}  # evalplus' words; any other is a failure


def write(evaluation: Path, folder: Path) -> None:
    """Writes samples.jsonl and samples_eval_results.json, which `evalplus.evaluate` takes up. Raises UserError."""
    if not (evaluation / SUMMARY_FILE).exists():
        raise UserError(f"{evaluation}: holds no finished evaluation; name the folder that `codea1 eval` has written")
    if not (evaluation / SAMPLES_FILE).exists():
        raise UserError(f"{evaluation}: holds no programs; name the folder of a `codea1 eval code`")
    samples: dict[str, list[str]] = {}
    for line in read_lines(evaluation / SAMPLES_FILE):
        samples.setdefault(line["task_id"], []).append(line["solution"])
    statuses = {task_name(line["task_id"]): line["statuses"] for line in read_lines(evaluation / RESULTS_FILE)}
    lines = {task: _lines(task, programs, statuses.get(task, ())) for task, programs in samples.items()}
    (folder / SAMPLES_FILE).write_bytes((evaluation / SAMPLES_FILE).read_bytes())
    results = json.dumps({"date": "", "hash": "", "eval": lines}, indent=2)
    (folder / "samples_eval_results.json").write_text(results + "\n")


def _lines(task: str, programs: Sequence[str], statuses: Sequence[str]) -> list[Mapping[str, Any]]:
    """The verdicts on the whole check, for the base tests as well, which were not judged by themselves."""
    ended = [_STATUSES.get(status, "fail") for status in statuses] or ["fail"] * len(programs)
    return [
        {"task_id": task, "solution": program, "base_status": status, "plus_status": status}
        | {"base_fail_tests": [], "plus_fail_tests": []}
        for program, status in zip(programs, ended, strict=True)
    ]
