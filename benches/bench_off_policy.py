"""Options that draw from another policy than the one that learns: `make bench-off-policy`, about an hour and a half.

The micro preset with truncated importance weights, drawn in turn, a step ahead (`train.async_steps`), and from numbers
of eight bits (`rollout.kv_cache_dtype`, `rollout.weight_dtype`), each from the same five seeds and on two processes
that share this machine's cores. Prints what a step took (median of all steps but the first, from one step's record to
the next), how far apart the policies were (mean over all steps, in nats a token) and the last held-out figures, in
percent: means with 95% intervals, and those of the differences from the runs in turn. Ends with one line of JSON.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path
from typing import Any

from codea1_jax.common.files import read_lines
from codea1_jax.rehearse.pod import Pod
from codea1_jax.reproduce.results import mean

SEEDS = 5
PLAIN = "in turn"
WAYS = {
    PLAIN: (),
    "ahead": ("train.async_steps=1",),
    "eight bits": ("rollout.kv_cache_dtype=fp8", "rollout.weight_dtype=int8"),
}
SETTINGS = ("code.grpo.importance_cap=2", "test.grpo.importance_cap=2", "checkpoint.every=1000")
LIMIT_SECONDS = 3600.0


def train(directory: Path, seed: int, way: str) -> dict[str, float]:
    """The figures of a run."""
    run = directory / f"{way.replace(' ', '_')}_{seed}"
    pod = Pod(processes=2, devices=2, logs=directory / "logs", compiled=directory / "compiled")
    overrides = (*SETTINGS, *WAYS[way], f"run.seed={seed}", f"run.directory={run}")
    with pod.running(run.name, ("train", "micro/a1", *overrides), LIMIT_SECONDS) as running:
        running.finish(0)
    return figures_of(read_lines(run / "metrics.jsonl"))


def figures_of(lines: list[dict[str, Any]]) -> dict[str, float]:
    """What is compared, of a run's metrics."""
    steps = [line for line in lines if line["kind"] == "train"]
    seconds = [after["time"] - before["time"] for before, after in pairwise(steps)]
    apart = {
        name: statistics.fmean(step[name] for step in steps if name in step)
        for name in (f"{policy}/rollout_difference_mean" for policy in ("code", "test"))
    }
    *_, last = (line for line in lines if line["kind"] == "eval")
    held_out = {
        name: value for name, value in last.items() if name.startswith("eval/") and not name.endswith(("_low", "_high"))
    }
    return {"step_seconds": statistics.median(seconds), **apart, **held_out}


def main() -> None:
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(SEEDS):
            for way in WAYS:  # turn by turn: what else the machine does meets them all
                found[way].append(train(Path(folder), seed, way))
                print(f"seed {seed}, {way}: {found[way][-1]['step_seconds']:.2f} s a step", flush=True)
    columns = [*WAYS, *(f"{way} - {PLAIN}" for way in WAYS if way != PLAIN)]
    print(f"{'':32}" + "".join(f"{column:>24}" for column in columns))
    means: dict[str, Any] = {}
    for name in found[PLAIN][0]:
        values = {way: [figures[name] for figures in runs] for way, runs in found.items()}
        for way in WAYS:
            if way != PLAIN:
                values[f"{way} - {PLAIN}"] = [b - a for a, b in zip(values[PLAIN], values[way], strict=True)]
        means[name] = {column: astuple(mean(values[column])) for column in columns}
        print(f"{name:32}" + "".join(f"{value:15.4g} ± {margin:6.2g}" for value, margin in means[name].values()))
    print(json.dumps({"bench": "off-policy", "seeds": SEEDS, "means": means}))


if __name__ == "__main__":
    main()
