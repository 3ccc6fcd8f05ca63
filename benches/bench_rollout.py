"""Useful tokens per second of rollouts: `make bench-rollout`, about an hour on 2 quiet cores.

Ours against transformers' `generate` and google-tunix's sampler, on the same weights (98M parameters, float32),
prompts and response lengths. The others run static batches, each until its longest response is done. Every
contender is a process in its own environment, made under .venv-bench; they play turn by turn. Useful tokens
are those of the responses asked for. On a machine with CUDA it also prints the share of the memory bandwidth that
decoding of Qwen2.5 1.5B in bfloat16 reaches at 256 sequences. Ends with one line of JSON.
"""

import json
import math
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
from contenders import Contender, environment
from rollout_roofline import bandwidth_share
from rollout_worker import MODEL, WORKLOADS, Workload, read_workloads

from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.qwen2 import Qwen2, init_params
from codea1_jax.models.weights import save_params

SHAPE = Qwen2Config(32_000, 768, 2048, 12, 12, 2, 64)
OTHERS = {
    "transformers": ("torch", ("torch==2.13.0", "transformers>=5,<6")),
    "tunix": ("tunix", ("google-tunix==0.1.7", "jax==0.10.2")),
}
BATCH = 64  # of the others: the largest that made each of them faster
ROUNDS = {"uniform": 3, "ragged": 1, "long-tailed": 1}
# Who plays a round before, to compile in. tunix compiles for seconds of the half hour that its long-tailed round takes.
WARM_UPS = {"uniform": ("ours", "transformers", "tunix"), "ragged": ("ours", "tunix"), "long-tailed": ("ours",)}


def make_workloads() -> dict[str, Workload]:
    """32 prompts of 64 tokens and one response of 64 each; 64 prompts of 32 to 128 and 8 responses of 12 to 120; 64
    prompts of 64 to 512 and 8 responses each, log-normal, of which one in twenty reaches the limit of 512.
    """
    chance = random.Random(0)

    def prompt(length: int) -> list[int]:
        return [chance.randrange(3, SHAPE.vocab_size) for _ in range(length)]

    def log_uniform() -> int:
        return math.floor(math.exp(chance.uniform(math.log(12), math.log(121))))

    def log_normal() -> int:
        return max(1, min(512, round(math.exp(chance.normalvariate(math.log(512) - 0.8 * 1.645, 0.8)))))

    return {
        "uniform": Workload([prompt(64) for _ in range(32)], [[64]] * 32),
        "ragged": Workload(
            [prompt(chance.randint(32, 128)) for _ in range(64)], [[log_uniform() for _ in range(8)] for _ in range(64)]
        ),
        "long-tailed": Workload(
            [prompt(chance.randint(64, 512)) for _ in range(64)], [[log_normal() for _ in range(8)] for _ in range(64)]
        ),
    }


def compare(directory: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """What every contender reported of every round, by workload."""
    contenders = {"ours": Contender(sys.executable, "rollout_ours.py", directory)} | {
        name: Contender(environment(folder, packages), f"rollout_{name}.py", directory, BATCH)
        for name, (folder, packages) in OTHERS.items()
    }
    reported: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for workload, rounds in ROUNDS.items():
        for name in WARM_UPS[workload]:
            contenders[name].ask(workload)
        turns = [{name: contender.ask(workload) for name, contender in contenders.items()} for _ in range(rounds)]
        reported[workload] = {name: [turn[name] for turn in turns] for name in contenders}
    for contender in contenders.values():
        contender.stop()
    return reported


def main() -> None:
    figures: dict[str, Any] = {"tokens_per_second": {}, "peak_gb": {}}
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        save_params(directory / MODEL, init_params(Qwen2(SHAPE), jax.random.key(0)), SHAPE)
        (directory / WORKLOADS).write_text(json.dumps({name: vars(w) for name, w in make_workloads().items()}))
        reported = compare(directory)
        tokens = {name: workload.tokens for name, workload in read_workloads(directory).items()}
    print(f"{'workload':14}{'way':14}{'useful tokens/s':>16}{'peak GB':>9}   (median of the rounds; most so far)")
    for workload, ways in reported.items():
        speeds = {way: [tokens[workload] / round_["seconds"] for round_ in rounds] for way, rounds in ways.items()}
        figures["tokens_per_second"][workload] = {way: statistics.median(speed) for way, speed in speeds.items()}
        figures["peak_gb"][workload] = {way: rounds[-1]["peak_gb"] for way, rounds in ways.items()}
        for way, speed in figures["tokens_per_second"][workload].items():
            print(f"{workload:14}{way:14}{speed:16.0f}{figures['peak_gb'][workload][way]:9.1f}")
        for way in OTHERS:
            pairs = zip(speeds["ours"], speeds[way], strict=True)
            ratios[f"{workload}_{way}"] = statistics.median([ours / theirs for ours, theirs in pairs])
    ragged = reported["ragged"]["ours"][0]
    figures["prefill_share"] = ragged["prefilled"] / ragged["naive_prefilled"]
    print(f"ragged: {ragged['prefilled']} prompt tokens prefilled instead of {ragged['naive_prefilled']}")
    if jax.default_backend() == "gpu":
        figures["bandwidth_share"] = bandwidth_share()
        print(f"1.5B, bfloat16, 256 sequences: {figures['bandwidth_share']:.0%} of the measured memory bandwidth")
    print(json.dumps({"bench": "rollout", "ratios": ratios, **figures}))


if __name__ == "__main__":
    main()
