"""This project's sampler: groups share their prompts, a finished sample's row goes to the next. Argument: the bench's
directory.
"""

import sys
from pathlib import Path

from rollout_worker import MODEL, Workload, answer

from codea1_jax.config import RolloutConfig
from codea1_jax.models.decoder import Transformer
from codea1_jax.models.weights import load_params, read_config
from codea1_jax.rollout import Request, Sampler, Sampling
from codea1_jax.rollout.capacity import capacity_of

NEVER = -1
ROLLOUT = RolloutConfig(rows=128, prefill_tokens=1024)


def main() -> None:
    directory = Path(sys.argv[1])
    model = Transformer(read_config(directory / MODEL))
    params = load_params(directory / MODEL, model)

    def play(workload: Workload) -> None:
        pairs = enumerate(zip(workload.prompts, workload.lengths, strict=True))
        requests = [Request(tuple(prompt), (i,), len(lengths), tuple(lengths)) for i, (prompt, lengths) in pairs]
        samples, longest = max(map(len, workload.lengths)), max(map(max, workload.lengths))
        # What training chooses for such prompts and responses.
        capacity = capacity_of(ROLLOUT, 1, len(requests), samples, max(map(len, workload.prompts)), longest)
        sampler = Sampler(model, eos_ids=(NEVER,), pad_id=0, seed=0, capacity=capacity)
        for index, completions in sampler.generate(params, requests, Sampling(longest)):
            assert [len(completion.tokens) for completion in completions] == workload.lengths[index]

    answer(directory, play)


if __name__ == "__main__":
    main()
