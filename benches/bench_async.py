"""Steps that are drawn ahead against steps in turn: `make bench-async`, about an hour.

The micro preset with truncated importance weights and `train.async_steps` 0 and 1, from the same five seeds, each run
on two processes that share this machine's cores. Prints what a step took (median of all steps but the first, from one
step's record to the next) and the last held-out figures, in percent. Ends with one line of JSON.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path
from typing import Any

from codea1_jax.files import read_lines
from codea1_jax.rehearse.pod import Pod
from codea1_jax.reproduce.results import mean

SEEDS = 5
WAYS = {"in turn": 0, "ahead": 1}
SETTINGS = ("code.grpo.importance_cap=2", "test.grpo.importance_cap=2", "checkpoint.every=1000")
LIMIT_SECONDS = 3600.0


def train(directory: Path, seed: int, async_steps: int) -> dict[str, Any]:
    """The figures of a run."""
    run = directory / f"{seed}-{async_steps}"
    pod = Pod(processes=2, devices=2, logs=directory / "logs", compiled=directory / "compiled")
    overrides = (*SETTINGS, f"run.seed={seed}", f"train.async_steps={async_steps}", f"run.directory={run}")
    with pod.running(run.name, ("train", "micro/a1", *overrides), LIMIT_SECONDS) as running:
        running.finish(0)
    lines = read_lines(run / "metrics.jsonl")
    ended = [line["time"] for line in lines if line["kind"] == "train"]
    steps = [after - before for before, after in pairwise(ended)]
    *_, last = (line for line in lines if line["kind"] == "eval")
    figures = {name: value for name, value in last.items() if name.startswith("eval/")}
    return {"step_seconds": statistics.median(steps), **figures}


def main() -> None:
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(SEEDS):
            for way, async_steps in WAYS.items():  # turn by turn: what else the machine does meets both
                found[way].append(train(Path(folder), seed, async_steps))
                print(f"seed {seed}, {way}: {found[way][-1]['step_seconds']:.2f} s a step", flush=True)
    names = list(found["ahead"][0])
    print(f"{'':32}" + "".join(f"{way:>20}" for way in WAYS) + f"{'difference':>20}")
    means: dict[str, Any] = {}
    for name in names:
        values = {way: [each[name] for each in runs] for way, runs in found.items()}
        values["difference"] = [b - a for a, b in zip(*values.values(), strict=True)]
        means[name] = {way: astuple(mean(of)) for way, of in values.items()}
        print(f"{name:32}" + "".join(f"{value:12.2f} ± {margin:5.2f}" for value, margin in means[name].values()))
    print(json.dumps({"bench": "async", "seeds": SEEDS, "means": means}))


if __name__ == "__main__":
    main()
