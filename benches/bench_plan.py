"""The forecast of `codea1 plan --calibrate` against real training on this machine: `make bench-plan`.

Two runs: the micro preset, and the 98 million parameters of the other benches with random weights. Each trains a few
steps; the forecast of the last ones, each from its own lengths and from its programs measured apart, is compared with
what its phases took (medians: a step may meet a shape that is not compiled yet). Judging runs on the same cores
meanwhile, so it is left out of both. Ends with one line of JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

from harness import finish, save_model

from codea1_jax.cli import main as codea1
from codea1_jax.cli.plan import progress
from codea1_jax.config import Config, load
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.plan.arithmetic.lengths import read_lengths
from codea1_jax.plan.calibrate import calibrate
from codea1_jax.plan.comparison import TIMED
from data_pipeline import micro

PRESET = "micro/a1"
QUIET = ["eval.every=0", "checkpoint.every=1000"]


def compare(name: str, overrides: list[str], steps: int, compared: int) -> dict[str, float]:
    """Trains, forecasts the last steps, prints both; medians of the ratio of forecast and measured seconds.

    compared: how many of the steps; most of these must have no program left to compile.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = [*QUIET, *overrides, f"train.steps={steps}"]
        if codea1(["train", PRESET, *settings, f"run.directory={folder}/run"]):
            sys.exit(f"{name}: training failed")
        lines = map(json.loads, (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines())
        measured = [_timed(line) for line in lines if line["kind"] == "train"][-compared:]
        config = load(Config, PRESET, settings)
        rollouts = Path(folder) / "run" / "rollouts"
        forecast = [_forecast(config, rollouts / f"step_{step:06d}.jsonl") for step in range(steps + 1)[-compared:]]
    print(f"{name}: seconds of a step, medians of {compared}")
    ratios = {}
    for part in measured[0]:
        pairs = [(each[part], taken[part]) for each, taken in zip(forecast, measured, strict=True)]
        ratios[part] = round(statistics.median(seconds / taken for seconds, taken in pairs), 3)
        seconds, taken = map(statistics.median, zip(*pairs, strict=True))
        print(f"  {part:15} measured {taken:8.3f}   forecast {seconds:8.3f}   ratio {ratios[part]:5.2f}")
    return ratios


def _timed(line: dict[str, float]) -> dict[str, float]:
    """What a step took, by part."""
    return _with_sum({part: line[f"seconds/{part}"] for part in TIMED})


def _forecast(config: Config, rollouts: Path) -> dict[str, float]:
    """What it should have taken, by its own lengths and its programs measured apart."""
    with progress() as watch:
        found = calibrate(config, 1.0, watch, read_lengths(rollouts))
    phases = {phase.phase: phase.seconds for phase in found}
    return _with_sum({part: sum(phases.get(phase, 0.0) for phase in those) for part, those in TIMED.items()})


def _with_sum(parts: dict[str, float]) -> dict[str, float]:
    return parts | {"step": sum(parts.values())}


def main() -> None:
    with tempfile.TemporaryDirectory() as model:
        save_model(Path(model))
        micro_tokenizer(micro.WORDS).save(Path(model))
        large = [
            *("model.architecture=null", "warm_start=null", f"model.pretrained={model}", "train.questions=4"),
            *("code.grpo.mini_batch_questions=4", "test.grpo.mini_batch_questions=4"),
        ]
        ratios = {
            "micro": compare("the micro preset", [], steps=20, compared=7),
            "98m": compare("98 million parameters", large, steps=5, compared=3),
        }
    finish("plan", ratios)


if __name__ == "__main__":
    main()
