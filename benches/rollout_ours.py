"""This project's sampler: groups share their prompts, a finished sample's place goes to the next. Argument: the
bench's directory. Says how many prompt tokens it ran, and how many it had run with a prompt for every sample.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollout_worker import MODEL, Workload, answer

from codea1_jax.config import RolloutConfig
from codea1_jax.models.qwen2 import Params, Qwen2
from codea1_jax.models.weights import load_params, read_config
from codea1_jax.rollout import Capacity, Request, Sampler, Sampling
from codea1_jax.rollout.capacity import capacity_of

NEVER, ROWS = -1, 128


def requests_of(workload: Workload) -> list[Request]:
    pairs = enumerate(zip(workload.prompts, workload.lengths, strict=True))
    return [Request(tuple(prompt), (i,), len(lengths), tuple(lengths)) for i, (prompt, lengths) in pairs]


def capacity_for(requests: Sequence[Request]) -> Capacity:
    """What training chooses for such prompts and responses."""
    samples = max(request.samples for request in requests)
    prompt = max(len(request.prompt) for request in requests)
    response = max(max(request.limits) for request in requests)
    return capacity_of(RolloutConfig(rows=ROWS, prefill_tokens=1024), 1, len(requests), samples, prompt, response)


def generate(model: Qwen2, params: Params, requests: Sequence[Request], capacity: Capacity, most: int) -> Sampler:
    sampler = Sampler(model, eos_ids=(NEVER,), pad_id=0, seed=0, capacity=capacity)
    for index, completions in sampler.generate(params, requests, Sampling(most)):
        wanted = [min(limit, most) for limit in requests[index].limits]
        assert [len(completion.tokens) for completion in completions] == wanted
    return sampler


def main() -> None:
    directory = Path(sys.argv[1])
    model = Qwen2(read_config(directory / MODEL))
    params = load_params(directory / MODEL, model)

    def play(workload: Workload) -> dict[str, Any]:
        requests = requests_of(workload)
        sampler = generate(model, params, requests, capacity_for(requests), max(map(max, workload.lengths)))
        naive = sum((len(request.prompt) - 1) * request.samples for request in requests)
        return {"prefilled": sampler.counters.prefilled, "naive_prefilled": naive}

    answer(directory, play)


if __name__ == "__main__":
    main()
