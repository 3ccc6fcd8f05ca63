"""The forecast of `codea1 plan --calibrate` against real training on this machine: `make bench-plan`.

Two runs: the micro preset, and the 98 million parameters of the other benches with random weights. Each trains a few
steps; the forecast of the last step, from its own lengths and from its programs measured apart, is compared with what
the phases took (medians over the steps in which nothing was compiled). Judging runs on the same cores meanwhile, so it
is left out of both. Ends with one line of JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

import jax
from bench_model import SHAPE

from codea1_jax.cli import main as codea1
from codea1_jax.cli.plan import progress
from codea1_jax.config import Config, load
from codea1_jax.models.qwen2 import Qwen2, init_params
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.models.weights import save_params
from codea1_jax.plan.arithmetic.lengths import read_lengths
from codea1_jax.plan.calibrate import calibrate
from codea1_jax.plan.comparison import TIMED
from data_pipeline import micro

PRESET = "micro/a1"
QUIET = ["eval.every=0", "checkpoint.every=1000"]


def compare(name: str, overrides: list[str], steps: int, compiling: int) -> dict[str, float]:
    """Trains, forecasts, prints both; the ratio of forecast and measured seconds by what is timed.

    compiling: steps at the beginning in which programs are compiled.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = [*QUIET, *overrides, f"train.steps={steps}"]
        if codea1(["train", PRESET, *settings, f"run.directory={folder}/run"]):
            sys.exit(f"{name}: training failed")
        lines = map(json.loads, (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines())
        taken = [line for line in lines if line["kind"] == "train" and line["step"] > compiling]
        lengths = read_lengths(Path(folder) / "run" / "rollouts" / f"step_{steps:06d}.jsonl")
        with progress() as watch:
            found = calibrate(load(Config, PRESET, settings), 1.0, watch, lengths)
    phases = {phase.phase: phase.seconds for phase in found}
    measured = {part: statistics.median(line[f"seconds/{part}"] for line in taken) for part in TIMED}
    forecast = {part: sum(phases.get(phase, 0.0) for phase in those) for part, those in TIMED.items()}
    measured["step"], forecast["step"] = sum(measured.values()), sum(forecast.values())
    print(f"{name}: seconds of a step")
    ratios = {part: forecast[part] / seconds for part, seconds in measured.items()}
    for part, ratio in ratios.items():
        print(f"  {part:15} measured {measured[part]:8.3f}   forecast {forecast[part]:8.3f}   ratio {ratio:5.2f}")
    return {part: round(ratio, 3) for part, ratio in ratios.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as model:
        save_params(Path(model), init_params(Qwen2(SHAPE), jax.random.key(0)), SHAPE)
        micro_tokenizer(micro.WORDS).save(Path(model))
        large = [
            *("model.architecture=null", "warm_start=null", f"model.pretrained={model}", "train.questions=4"),
            *("code.grpo.mini_batch_questions=4", "test.grpo.mini_batch_questions=4"),
        ]
        ratios = {
            "micro": compare("the micro preset", [], steps=20, compiling=10),
            "98m": compare("98 million parameters", large, steps=4, compiling=2),
        }
    print(json.dumps({"bench": "plan", "forecast_to_measured": ratios}))


if __name__ == "__main__":
    main()
