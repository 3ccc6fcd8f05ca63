"""Tokens per second and MFU of an update, against FLOPs counted by hand."""

from types import SimpleNamespace

import pytest

from codea1_jax.common.chips import peak_flops
from codea1_jax.config import GRPOConfig, LoRAConfig, OptimizerConfig, PackingConfig
from codea1_jax.learn import GRPO, CrossEntropy, Learner, Trajectory
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer
from codea1_jax.training.step import update_speed

MODEL = Architecture(
    vocab_size=50, hidden_size=8, intermediate_size=12, num_layers=3, num_heads=2, num_kv_heads=1, head_dim=4
)
MATRICES = 8 * 8 * 2 + 8 * 4 * 2 + 3 * 8 * 12  # queries and output; keys and values; feed-forward
GROUP = [Trajectory((1, 2, 3), (4, 5), 1.0), Trajectory((1, 2, 3), (6, 7, 8, 9), -1.0)]


def forward(tokens, seen, logits):
    """Two FLOPs a product and sum; a pair of tokens that see each other costs scores and mixing of two heads of 4."""
    return 3 * (2 * MATRICES * tokens + 2 * 2 * 2 * 4 * seen) + 2 * 50 * 8 * logits


# The prompt once (1 + 2 + 3), and 1 and 3 tokens that see it and those before them: the last is not an input.
FORWARD = forward(3 + 1 + 3, 6 + 4 + (4 + 5 + 6), 2 + 4)


def learner(*, lora=None, supervised=False, **grpo):
    objective = CrossEntropy() if supervised else GRPO(GRPOConfig(**grpo))
    return Learner(Transformer(MODEL), objective, OptimizerConfig(), PackingConfig(), total_steps=1, lora=lora)


def flops(groups, **settings):
    return learner(**settings).flops(groups)


def test_an_update_is_a_pass_forwards_two_backwards_and_those_that_score():
    assert flops([GROUP], kl_coef=0) == 3 * FORWARD
    assert flops([GROUP], kl_coef=0.1) == 4 * FORWARD
    assert flops([GROUP], kl_coef=0.1, supervised=True) == 3 * FORWARD
    assert (
        flops([GROUP] * 3, kl_coef=0.1, mini_batch_questions=1) == 3 * 4 * FORWARD + 2 * FORWARD
    )  # old, except for the first
    assert flops([GROUP], kl_coef=0.1, lora=LoRAConfig()) == 3 * FORWARD
    assert flops([[]]) == 0


def test_a_peak_is_that_of_all_devices_and_unknown_where_one_is():
    h200, v5e, cpu = (SimpleNamespace(device_kind=kind) for kind in ("NVIDIA H200", "TPU v5 lite", "cpu"))
    assert peak_flops([h200] * 2) == 2 * 989e12
    assert peak_flops([v5e] * 4) == 4 * 197e12
    assert peak_flops([cpu]) is None and peak_flops([h200, cpu]) is None


def test_speed_is_in_response_tokens_and_a_share_of_a_known_peak():
    ours = learner(kl_coef=0)
    tokens, work = ours.tokens([GROUP]), ours.flops([GROUP])
    assert update_speed(tokens, work, 2.0, 1e6) == {"tokens_per_second": 6 / 2, "mfu": pytest.approx(3 * FORWARD / 2e6)}
    assert update_speed(tokens, work, 2.0, None) == {"tokens_per_second": 3.0}
