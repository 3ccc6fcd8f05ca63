"""What the sum over a mini-batch's tokens is divided by."""

import pytest

from codea1_jax.config import Config, GRPOConfig, load
from codea1_jax.learn import GRPO, Trajectory
from codea1_jax.learn.learning import Learning

CONSTANT = GRPO(GRPOConfig(normalizer="constant"), response_tokens=10)


def groups(*lengths):
    """One response in a group; one of no tokens was cut off before its first."""
    return [[Trajectory((3,), (4,) * length, 1.0, truncated=length > 6)] for length in lengths]


def test_a_constant_normalizer_counts_every_response_alike():
    assert GRPO(GRPOConfig()).normalizer(groups(2, 5, 7)) == 14
    assert CONSTANT.normalizer(groups(2, 5, 7)) == CONSTANT.normalizer(groups(1, 1, 9)) == 30
    masked = GRPO(GRPOConfig(normalizer="constant", mask_truncated=True), response_tokens=10)
    assert masked.normalizer(groups(2, 5, 7)) == 20
    assert CONSTANT.normalizer([[]]) == 1


@pytest.mark.parametrize(
    ("method", "longest"), [("a1", {"code": 32, "test": 64}), ("golden", {"code": 32}), ("self_play", {"code": 64})]
)
def test_a_policys_responses_count_as_the_longest_that_its_roles_may_draw(method, longest):
    config = load(Config, "micro/a1", ["rollout.code_tokens=32", "rollout.test_tokens=64", f"method.name={method}"])
    learning = Learning(config)
    assert {name: learning.response_tokens(name) for name in learning.sections} == longest
