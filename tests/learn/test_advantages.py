import numpy as np
import pytest
from parity import load_parity

from codea1_jax.learn.advantages import group_advantages


@pytest.mark.parametrize("case", load_parity()["grpo"])
def test_advantages_equal_the_original(case):
    size, mask = case["group_size"], np.array(case["mask"])
    groups = [case["rewards"][start : start + size] for start in range(0, len(case["rewards"]), size)]
    ours = np.concatenate([group_advantages(group) for group in groups])
    np.testing.assert_allclose(ours[:, None] * mask, case["advantages"], atol=1e-6)


def test_two_unequal_rewards_stand_one_over_root_two_from_their_mean():
    np.testing.assert_allclose(group_advantages([0.0, 1.0]), [-(0.5**0.5), 0.5**0.5], atol=2e-6)


def test_unscaled_advantages_are_the_distances_from_the_mean():
    np.testing.assert_allclose(group_advantages([0.0, 0.5, 1.0], scale=False), [-0.5, 0.0, 0.5])
    assert group_advantages([0.3] * 4, scale=False).tolist() == [0.0] * 4


@pytest.mark.parametrize("rewards", [[0.1] * 3, [0.7] * 8, [0.3], []])
def test_an_equal_group_has_advantages_of_exactly_zero(rewards):
    assert group_advantages(rewards).tolist() == [0.0] * len(rewards)


def test_a_reward_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="finite"):
        group_advantages([0.5, float("nan")])
