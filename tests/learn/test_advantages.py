import numpy as np
import pytest
from parity import load_parity

from codea1_jax.learn.advantages import group_advantages

ESTIMATORS = "grpo", "centred", "rloo"


def random_groups(seed):
    """Ragged groups of rewards."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(size=rng.integers(2, 9)) for _ in range(6)]


def of(rewards, estimator):
    return group_advantages(list(rewards), estimator)


@pytest.mark.parametrize("case", load_parity()["grpo"])
def test_advantages_equal_the_original(case):
    size, mask = case["group_size"], np.array(case["mask"])
    groups = [case["rewards"][start : start + size] for start in range(0, len(case["rewards"]), size)]
    ours = np.concatenate([group_advantages(group) for group in groups])
    np.testing.assert_allclose(ours[:, None] * mask, case["advantages"], atol=1e-6)


@pytest.mark.parametrize(
    ("estimator", "rewards", "advantages"),
    [
        ("grpo", [0.0, 1.0], [-(0.5**0.5), 0.5**0.5]),  # two unequal rewards stand one over root two from their mean
        ("centred", [0.0, 0.5, 1.0], [-0.5, 0.0, 0.5]),
        ("rloo", [0.0, 0.5, 1.0], [-0.75, 0.0, 0.75]),  # the others' means are 3/4, 1/2 and 1/4
    ],
)
def test_advantages_by_hand(estimator, rewards, advantages):
    np.testing.assert_allclose(group_advantages(rewards, estimator), advantages, atol=2e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_advantages_of_a_group_cancel_and_follow_its_rewards(estimator):
    for seed in range(20):
        for rewards in random_groups(seed):
            advantages = of(rewards, estimator)
            assert advantages.sum() == pytest.approx(0, abs=1e-9)
            np.testing.assert_array_equal(np.argsort(advantages), np.argsort(rewards))
            shifted = of(rewards + 3.0, estimator)
            np.testing.assert_allclose(shifted, advantages, atol=1e-4)
            if estimator == "grpo":
                np.testing.assert_allclose(of(7 * rewards, estimator), advantages, rtol=1e-3)


def test_rloo_is_the_distance_from_the_mean_of_the_others():
    for rewards in random_groups(1):
        others = [np.delete(rewards, i).mean() for i in range(rewards.size)]
        np.testing.assert_allclose(of(rewards, "rloo"), rewards - others, atol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("rewards", [[0.1] * 3, [0.7] * 8, [0.3], [], [-0.2, -0.2]])
def test_an_equal_group_has_advantages_of_exactly_zero(rewards, estimator):
    assert group_advantages(rewards, estimator).tolist() == [0.0] * len(rewards)


def test_a_reward_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="finite"):
        group_advantages([0.5, float("nan")])
