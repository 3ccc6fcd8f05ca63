"""A GRPO update, reference log-probabilities included, compared with TRL's and google-tunix's: `make bench-learner`.

98 million parameters in float32 on a CPU, AdamW, 4 prompts of 64 tokens, then of 512, with 8 completions each, whose
lengths are log-uniform in 32..320; the same for all, each peer and this project turn by turn. TRL and tunix take 8
sequences at a time, padded to the longest. Ends with one line of JSON. Three quarters of an hour on two quiet cores,
after the environments are made.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
from harness import SHAPE, contenders, finish, save_model, speedups, table, take_turns

PROMPTS, SAMPLES, SHORTEST, LONGEST = 4, 8, 32, 320
EOS, FIRST = 1, 2  # the least token id that means nothing
TURNS = 3
# Prompt tokens, and with whom they are compared, by what the ratios' names begin with. tunix was killed in the second
# case, having taken 22 GB.
CASES = {"": (64, ("trl", "tunix")), "shared_prompts_": (512, ("trl",))}


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


def compare(peer: str, groups: list[dict[str, list]]) -> float:
    """How many times as long as ours the peer takes. One peer: all at once need more memory than a laptop has."""
    tokens = sum(len(completion) for group in groups for completion in group["completions"])
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        save_model(directory)
        (directory / "workload.json").write_text(json.dumps(groups))
        with contenders("learner", [peer], directory) as started:
            take_turns(started, 1)  # compiles
            turns = take_turns(started, TURNS)
    print(f"prompts of {len(groups[0]['prompt'])} tokens: {tokens} completion tokens in {PROMPTS * SAMPLES} sequences")
    print(table(turns, tokens, "completion tokens"), flush=True)
    return speedups(turns)[peer]


def main() -> None:
    ratios = {
        f"{prefix}{peer}": compare(peer, workload(prompt_tokens))
        for prefix, (prompt_tokens, peers) in CASES.items()
        for peer in peers
    }
    finish("learner", ratios)


if __name__ == "__main__":
    main()
