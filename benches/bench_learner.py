"""A GRPO update, reference log-probabilities included, compared with TRL's and google-tunix's: `make bench-learner`.

98 million parameters in float32 on a CPU, AdamW, 4 prompts of 64 tokens, then of 512, with 8 completions each, whose
lengths are log-uniform in 32..320; the same for all, each peer and this project turn by turn. TRL and tunix take 8
sequences at a time, padded to the longest. Ends with one line of JSON. Three quarters of an hour on two quiet cores,
after the environments are made.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from bench_model import SHAPE
from contenders import Contender, environment

from codea1_jax.models.qwen2 import Qwen2, init_params
from codea1_jax.models.weights import save_params

PROMPTS, SAMPLES, SHORTEST, LONGEST = 4, 8, 32, 320
EOS, FIRST = 1, 2  # the least token id that means nothing
TURNS = 3
# Prompt tokens, and with whom they are compared, by what the ratios' names begin with. tunix was killed in the second
# case, having taken 22 GB.
CASES = {"": (64, ("trl", "tunix")), "shared_prompts_": (512, ("trl",))}
PEERS = {"trl": ("torch==2.13.0", "transformers>=5,<6", "trl==1.16.0"), "tunix": ("google-tunix==0.1.7", "jax==0.10.2")}


def workload(prompt_tokens: int) -> list[dict[str, list]]:
    """Groups of a prompt, completions that end with EOS, and their rewards."""
    random = np.random.default_rng(0)

    def tokens(count: int) -> list[int]:
        return random.integers(FIRST, SHAPE.vocab_size, count).tolist()

    def completion() -> list[int]:
        length = int(np.exp(random.uniform(np.log(SHORTEST), np.log(LONGEST))))
        return [*tokens(length - 1), EOS]

    return [
        {
            "prompt": tokens(prompt_tokens),
            "completions": [completion() for _ in range(SAMPLES)],
            "rewards": random.uniform(size=SAMPLES).tolist(),
        }
        for _ in range(PROMPTS)
    ]


def compare(prompt_tokens: int, peers: Sequence[str]) -> dict[str, float]:
    """How often each peer's seconds are ours."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        save_params(directory, init_params(Qwen2(SHAPE), jax.random.key(0)), SHAPE)
        groups = workload(prompt_tokens)
        (directory / "workload.json").write_text(json.dumps(groups))
        tokens = sum(len(completion) for group in groups for completion in group["completions"])
        print(f"prompts of {prompt_tokens} tokens: {tokens} completion tokens in {PROMPTS * SAMPLES} sequences")
        return {name: _compare_with(name, directory, tokens) for name in peers}


def _compare_with(peer: str, directory: Path, tokens: int) -> float:
    """One peer and this project in turn: all three at once need more memory than a laptop has."""
    contenders = {
        peer: Contender(environment(peer, PEERS[peer]), f"learner_{peer}.py", directory),
        "ours": Contender(sys.executable, "learner_ours.py", directory),
    }
    for contender in contenders.values():
        contender.ask()  # compiles
    turns = [{name: contender.ask() for name, contender in contenders.items()} for _ in range(TURNS)]
    for name, contender in contenders.items():
        contender.stop()
        seconds = statistics.median(turn[name]["seconds"] for turn in turns)
        peak = turns[-1][name]["peak_gb"]
        print(
            f"{name:6} {seconds:7.1f} s {tokens / seconds:7.0f} completion tokens/s {peak:6.1f} GB at most", flush=True
        )
    # Of each turn by itself, since the machine may be busier in one than in another.
    return round(statistics.median(turn[peer]["seconds"] / turn["ours"]["seconds"] for turn in turns), 3)


def main() -> None:
    ratios = {
        f"{prefix}{peer}": ratio
        for prefix, (prompt_tokens, peers) in CASES.items()
        for peer, ratio in compare(prompt_tokens, peers).items()
    }
    print(json.dumps({"bench": "learner", "ratios": ratios}))


if __name__ == "__main__":
    main()
