"""GRPO updates by google-tunix's learner, to which completions are handed. Argument: the bench's directory."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from contenders import turns
from tunix.models.qwen2.model import ModelConfig
from tunix.models.qwen2.params import create_model_from_safe_tensors
from tunix.rl.grpo.grpo_learner import GRPOConfig, GRPOLearner
from tunix.rl.rl_cluster import ClusterConfig, RLCluster, RLTrainingConfig, Role
from tunix.rl.rollout.base_rollout import BaseRollout, RolloutConfig, RolloutOutput

PAD, EOS = 0, 1


class Numbers:
    def encode(self, text: str) -> list[int]:
        return list(map(int, text.split()))

    def decode(self, tokens: list[int]) -> str:
        return " ".join(map(str, tokens))

    def bos_id(self) -> int:
        return 0  # none is put before a prompt

    def eos_id(self) -> int:
        return EOS

    def pad_id(self) -> int:
        return PAD


class Prepared(BaseRollout):
    """Says for every prompt what the workload has for it."""

    def __init__(self, *, rollout_actor: Any, groups: dict[str, Any], **_: Any) -> None:
        self._model, self._groups = rollout_actor, groups

    def generate(self, prompts: list[str], rollout_config: RolloutConfig, **_: Any) -> RolloutOutput:
        asked = [self._groups[prompt] for prompt in prompts]
        tokens = [np.array(g["completions"][i % len(g["completions"])]) for i, g in enumerate(asked)]
        rows = np.array([group["prompt"] for group in asked])
        return RolloutOutput(
            text=[""] * len(prompts), logits=[], tokens=tokens, left_padded_prompt_tokens=rows, logprobs=None
        )

    def get_per_token_logps(self, *_: Any, **__: Any) -> jax.Array:
        raise AssertionError("with one iteration over a batch nobody asks for these")

    def update_params(self, params: Any, filter_types: Any = None) -> None:
        pass  # nothing is sampled with them

    def pad_id(self) -> int:
        return PAD

    def eos_id(self) -> int:
        return EOS

    def model(self) -> Any:
        return self._model


def read_config(directory: Path) -> ModelConfig:
    config = json.loads((directory / "config.json").read_text())
    return ModelConfig(
        num_layers=config["num_hidden_layers"],
        vocab_size=config["vocab_size"],
        embed_dim=config["hidden_size"],
        hidden_dim=config["intermediate_size"],
        num_heads=config["num_attention_heads"],
        head_dim=config["head_dim"],
        num_kv_heads=config["num_key_value_heads"],
        rope_theta=config["rope_theta"],
        norm_eps=config["rms_norm_eps"],
        use_tied_embedding=config["tie_word_embeddings"],
    )


def main() -> None:
    directory = Path(sys.argv[1])
    workload = json.loads((directory / "workload.json").read_text())
    samples = len(workload[0]["completions"])
    longest = max(len(c) for group in workload for c in group["completions"])
    groups = {" ".join(map(str, group["prompt"])): group for group in workload}
    mesh = jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    config = read_config(directory)
    actor, reference = (create_model_from_safe_tensors(str(directory), config, mesh) for _ in range(2))

    cluster = RLCluster(
        actor=actor,
        reference=reference,
        tokenizer=Numbers(),
        cluster_config=ClusterConfig(
            role_to_mesh={role: mesh for role in (Role.ACTOR, Role.REFERENCE, Role.ROLLOUT)},
            rollout_engine=partial(Prepared, groups=groups),
            training_config=RLTrainingConfig(
                actor_optimizer=optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-6, weight_decay=0.1)),
                eval_every_n_steps=10**6,
                max_steps=100,
                mini_batch_size=len(workload),
                train_micro_batch_size=1,
            ),
            rollout_config=RolloutConfig(
                max_tokens_to_generate=longest, max_prompt_length=len(workload[0]["prompt"]), temperature=1.0
            ),
        ),
    )

    def reward(prompts: list[str], **_: Any) -> list[float]:
        return [groups[prompt]["rewards"][i % samples] for i, prompt in enumerate(prompts)]

    algorithm = GRPOConfig(num_generations=samples, num_iterations=1, beta=0.001, epsilon=0.2)
    learner = GRPOLearner(cluster, algorithm, reward)
    learner.train({"prompts": list(groups)} for _ in turns())


if __name__ == "__main__":
    main()
