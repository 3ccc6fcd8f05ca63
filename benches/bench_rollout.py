"""Useful tokens per second of rollouts: `make bench-rollout`, about half an hour on 2 quiet cores.

Ours against transformers' `generate`, on the same weights (98M parameters, float32), prompts and response lengths.
Theirs runs static batches, each until its longest response is done. Each contender is a process in its own
environment, made under .venv-bench; they play turn by turn. Useful tokens are those of the responses asked for. Ends
with one line of JSON.
"""

import json
import math
import random
import tempfile
from pathlib import Path

from harness import SHAPE, contenders, finish, save_model, speedups, table, take_turns
from rollout_worker import MODEL, WORKLOADS, Workload

PEERS = ("transformers",)
BATCH = 64  # of transformers: the largest that made it faster
ROUNDS = {"uniform": 3, "ragged": 1, "long-tailed": 1}
# Who plays a round before, to compile in.
WARM_UPS = {"uniform": ("ours", "transformers"), "ragged": ("ours",), "long-tailed": ("ours",)}


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


def main() -> None:
    workloads = make_workloads()
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        save_model(directory / MODEL)
        (directory / WORKLOADS).write_text(json.dumps({name: vars(workload) for name, workload in workloads.items()}))
        with contenders("rollout", PEERS, directory, BATCH) as started:
            for workload, rounds in ROUNDS.items():
                for name in WARM_UPS[workload]:
                    started[name].ask(workload)
                turns = take_turns(started, rounds, lambda contender, workload=workload: contender.ask(workload))
                ratios |= {f"{workload}_{peer}": ratio for peer, ratio in speedups(turns).items()}
                print(f"{workload}:", table(turns, workloads[workload].tokens, "useful tokens"), sep="\n", flush=True)
    finish("rollout", ratios)


if __name__ == "__main__":
    main()
