"""An evaluation's folder in the forms of lm-evaluation-harness and evalplus."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import read_json, read_lines
from codea1_jax.evals.code import SAMPLES_FILE
from codea1_jax.evals.journal import RESULTS_FILE, SUMMARY_FILE
from codea1_jax.evals.samples import task_name

_STATUSES = {"passed": "pass", "timed out": "timeout"}  # evalplus' words; any other is a failure
_WIDTH = 200 * NormalDist().inv_cdf(0.975)  # of a 95% interval in percent, in standard errors of a share


def write_lm_eval(evaluation: Path, folder: Path) -> None:
    """Writes results_DATE.json, and samples_BENCHMARK_DATE.jsonl where programs were evaluated. Raises UserError."""
    summary = _summary(evaluation)
    date = datetime.fromtimestamp((evaluation / SUMMARY_FILE).stat().st_mtime).strftime("%Y-%m-%dT%H-%M-%S.%f")
    _write(folder / f"results_{date}.json", lm_eval_results(summary))
    if (evaluation / SAMPLES_FILE).exists():
        for task, lines in lm_eval_samples(*_judged(evaluation)).items():
            (folder / f"samples_{task}_{date}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def lm_eval_results(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a summary, as shares; a standard error is that of a normal distribution with the same interval."""
    config, tasks = summary["config"], summary["benchmarks"]
    estimates = {
        task: {name.replace("_at_", "@"): value for name, value in figures.items() if isinstance(value, dict)}
        for task, figures in tasks.items()
    }
    results = {
        task: {"alias": task}
        | {f"{name},none": value["value"] / 100 for name, value in figures.items()}
        | {f"{name}_stderr,none": (value["high"] - value["low"]) / _WIDTH for name, value in figures.items()}
        for task, figures in estimates.items()
    }
    counts = {task: {"original": each["problems"], "effective": each["problems"]} for task, each in tasks.items()}
    return {
        "results": results,
        "group_subtasks": {task: [] for task in tasks},
        "configs": {task: {"task": task, "metadata": config} for task in tasks},
        "versions": dict.fromkeys(tasks, summary["versions"]["packages"]["codea1-jax"]),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {task: dict.fromkeys(figures, True) for task, figures in estimates.items()},
        "n-samples": counts,
        "config": {"model": "codea1", "model_args": config.get("model") or config.get("samples")},
        "model_name": config.get("model") or config.get("samples"),
        "total_evaluation_time_seconds": str(summary["seconds"]),
    }


def lm_eval_samples(
    samples: Mapping[str, Sequence[str]], results: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """A line for each problem that was judged, by its benchmark."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for task, result in results.items():
        statuses = result["statuses"]
        of_benchmark = lines.setdefault(result["source"], [])
        of_benchmark.append(
            {
                "doc_id": len(of_benchmark),
                "doc": {"task_id": task},
                "target": "",
                "arguments": {},
                "resps": [[*samples.get(task, ())]],
                "filtered_resps": [[*samples.get(task, ())]],
                "filter": "none",
                "metrics": ["pass@1"],
                "pass@1": statuses.count("passed") / len(statuses) if statuses else 0.0,
            }
        )
    return lines


def write_evalplus(evaluation: Path, folder: Path) -> None:
    """Writes samples.jsonl and samples_eval_results.json, which `evalplus.evaluate` takes up. Raises UserError."""
    _summary(evaluation)
    samples, results = _judged(evaluation)
    (folder / SAMPLES_FILE).write_bytes((evaluation / SAMPLES_FILE).read_bytes())
    _write(folder / "samples_eval_results.json", evalplus_results(samples, results))


def evalplus_results(samples: Mapping[str, Sequence[str]], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The verdicts on the whole check, for the base tests as well, which were not judged by themselves."""

    def lines(task: str, programs: Sequence[str]) -> list[dict[str, Any]]:
        statuses = [_STATUSES.get(status, "fail") for status in results.get(task, {}).get("statuses", ())]
        return [
            {"task_id": task, "solution": program, "base_status": status, "plus_status": status}
            | {"base_fail_tests": [], "plus_fail_tests": []}
            for program, status in zip(programs, statuses or ["fail"] * len(programs), strict=True)
        ]

    return {"date": "", "hash": "", "eval": {task: lines(task, programs) for task, programs in samples.items()}}


def _judged(evaluation: Path) -> tuple[dict[str, list[str]], dict[str, dict[str, Any]]]:
    """An evaluation's programs by task, and the results of those that were judged. Raises UserError if it has none."""
    if not (evaluation / SAMPLES_FILE).exists():
        raise UserError(f"{evaluation}: holds no programs; name the folder of a `codea1 eval code`")
    samples: dict[str, list[str]] = {}
    for line in read_lines(evaluation / SAMPLES_FILE):
        samples.setdefault(line["task_id"], []).append(line["solution"])
    results = {task_name(line["task_id"]): line for line in read_lines(evaluation / RESULTS_FILE)}
    return samples, results


def _summary(evaluation: Path) -> dict[str, Any]:
    if not (evaluation / SUMMARY_FILE).exists():
        raise UserError(f"{evaluation}: holds no finished evaluation; name the folder that `codea1 eval` has written")
    return read_json(evaluation / SUMMARY_FILE)


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n")
