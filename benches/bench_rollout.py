"""Useful tokens per second of rollouts: `make bench-rollout`, about 15 minutes on 2 quiet cores.

Ours against transformers' `generate` and google-tunix's sampler, on the same weights (98M parameters, float32),
prompts and response lengths. The others run static batches, each until its longest response is done. Every
contender is a process in an environment of its own, made under .venv-bench; they play turn by turn. Useful tokens
are those of the responses asked for. On a machine with CUDA it also prints the share of the memory bandwidth that
decoding of Qwen2.5 1.5B in bfloat16 reaches at 256 sequences. Ends with one line of JSON.
"""

import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jax
from rollout_roofline import bandwidth_share
from rollout_worker import MODEL, WORKLOADS, Workload, read_workloads

from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.qwen2 import Qwen2, init_params
from codea1_jax.models.weights import save_params

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".venv-bench"
SHAPE = Qwen2Config(32_000, 768, 2048, 12, 12, 2, 64)
# The largest batch that made each of them faster.
OTHERS = {
    "transformers": ("torch", ["torch==2.13.0", "transformers==5.23.0"], 64),
    "tunix": ("tunix", ["google-tunix==0.1.7"], 64),
}
ROUNDS = {"uniform": 3, "ragged": 1}


def make_workloads() -> dict[str, Workload]:
    """32 prompts of 64 tokens and one response of 64 each; 64 prompts of 32 to 128 and 8 responses of 12 to 120."""
    chance = random.Random(0)

    def prompt(length: int) -> list[int]:
        return [chance.randrange(3, SHAPE.vocab_size) for _ in range(length)]

    def log_uniform() -> int:
        return math.floor(math.exp(chance.uniform(math.log(12), math.log(121))))

    return {
        "uniform": Workload([prompt(64) for _ in range(32)], [[64]] * 32),
        "ragged": Workload(
            [prompt(chance.randint(32, 128)) for _ in range(64)], [[log_uniform() for _ in range(8)] for _ in range(64)]
        ),
    }


def environment(name: str, packages: list[str]) -> Path:
    """The Python of an environment with these packages, made if it is not there."""
    directory = ENVIRONMENTS / name
    made = directory / "made"
    if not made.exists():
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, directory], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", directory, *packages], check=True)
        made.touch()
    return directory / "bin" / "python"


@contextmanager
def contender(python: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that plays workloads; it ends with its standard input."""
    with subprocess.Popen(
        [python, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    ) as process:  # fmt: skip
        yield process
        assert process.stdin
        process.stdin.close()


def play(process: subprocess.Popen[str], workload: str) -> dict[str, Any]:
    assert process.stdin
    assert process.stdout
    print(workload, file=process.stdin, flush=True)
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args} ended with code {process.wait()} at the workload {workload}")
    return json.loads(line)


def compare(directory: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """What every contender told of every round, by workload. Each has one more round before, to compile in."""
    told: dict[str, dict[str, list[dict[str, Any]]]] = {}
    with ExitStack() as stack:
        ours = contender(Path(sys.executable), str(HERE / "rollout_ours.py"), str(directory))
        playing = {"ours": stack.enter_context(ours)}
        for name, (folder, packages, size) in OTHERS.items():
            script = str(HERE / f"rollout_{name}.py")
            other = contender(environment(folder, packages), script, str(directory), str(size))
            playing[name] = stack.enter_context(other)
        for workload, rounds in ROUNDS.items():
            for name, process in playing.items():
                if (name, workload) != ("transformers", "ragged"):  # it compiles nothing
                    play(process, workload)
            told[workload] = {name: [] for name in playing}
            for _ in range(rounds):
                for name, process in playing.items():
                    told[workload][name].append(play(process, workload))
    return told


def main() -> None:
    figures: dict[str, Any] = {"tokens_per_second": {}}
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        save_params(directory / MODEL, jax.jit(partial(init_params, Qwen2(SHAPE)))(jax.random.key(0)), SHAPE)
        (directory / WORKLOADS).write_text(json.dumps({name: vars(w) for name, w in make_workloads().items()}))
        told = compare(directory)
        tokens = {name: workload.tokens for name, workload in read_workloads(directory).items()}
    print(f"{'workload':10}{'way':14}{'useful tokens/s':>16}   (median of the rounds)")
    for workload, ways in told.items():
        speeds = {way: [tokens[workload] / round_["seconds"] for round_ in rounds] for way, rounds in ways.items()}
        figures["tokens_per_second"][workload] = {way: statistics.median(speed) for way, speed in speeds.items()}
        for way, speed in figures["tokens_per_second"][workload].items():
            print(f"{workload:10}{way:14}{speed:16.0f}")
        for way in OTHERS:
            pairs = zip(speeds["ours"], speeds[way], strict=True)
            ratios[f"{workload}_{way}"] = statistics.median([ours / theirs for ours, theirs in pairs])
    ragged = told["ragged"]["ours"][0]
    figures["prefill_share"] = ragged["prefilled"] / ragged["naive_prefilled"]
    print(f"ragged: {ragged['prefilled']} prompt tokens prefilled instead of {ragged['naive_prefilled']}")
    if jax.default_backend() == "gpu":
        figures["bandwidth_share"] = bandwidth_share()
        print(f"1.5B, bfloat16, 256 sequences: {figures['bandwidth_share']:.0%} of the measured memory bandwidth")
    print(json.dumps({"bench": "rollout", "ratios": ratios, **figures}))


if __name__ == "__main__":
    main()
