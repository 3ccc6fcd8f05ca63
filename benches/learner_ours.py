"""GRPO updates by codea1_jax. Argument: the bench's directory."""

import json
import sys
from pathlib import Path

from contenders import turns

from codea1_jax.config import GRPOConfig, OptimizerConfig, PackingConfig
from codea1_jax.learn import GRPO, Learner, Trajectory
from codea1_jax.learn.advantages import group_advantages
from codea1_jax.models.decoder import Transformer
from codea1_jax.models.weights import load_params, read_config


def main() -> None:
    directory = Path(sys.argv[1])
    workload = json.loads((directory / "workload.json").read_text())
    model = Transformer(read_config(directory))
    reference = load_params(directory, model)
    # A prompt takes up to a quarter of a row, so that it is seldom computed twice.
    row_length = max(512, 4 * len(workload[0]["prompt"]))
    packing = PackingConfig(row_length=row_length, micro_batch_tokens=max(1024, row_length))
    learner = Learner(model, GRPO(GRPOConfig()), OptimizerConfig(), packing, total_steps=100)
    state = learner.init(reference)
    groups = [
        [
            Trajectory(tuple(group["prompt"]), tuple(completion), float(advantage))
            for completion, advantage in zip(group["completions"], group_advantages(group["rewards"]), strict=True)
        ]
        for group in workload
    ]
    for _ in turns():
        state, _ = learner.update(state, reference, groups)


if __name__ == "__main__":
    main()
