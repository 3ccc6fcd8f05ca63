import numpy as np
import pytest
from parity import load_parity

from codea1_jax.learn.advantages import group_advantages, scaled_over_step
from codea1_jax.learn.batch import Trajectory

ESTIMATORS = "grpo", "centred", "rloo", "reinforce++", "maxrl"


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
        ("reinforce++", [0.0, 0.5, 1.0], [-0.5, 0.0, 0.5]),
        ("maxrl", [0.0, 0.0, 0.0, 1.0], [-1.0, -1.0, -1.0, 3.0]),  # one success in four weighs three failures
        ("maxrl", [0.0, 0.5, 1.0], [-1.0, 0.0, 1.0]),
        ("maxrl", [-1.0, 0.0, 2.0, 2.0], [-1.0, -1.0, 1.0, 1.0]),  # what is below 0 counts as 0
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
            same = np.allclose(shifted, advantages, atol=1e-4)
            assert same == (estimator != "maxrl")  # which weighs a question by how rarely it is solved
            if estimator in ("grpo", "maxrl"):
                np.testing.assert_allclose(of(7 * rewards, estimator), advantages, rtol=1e-3)


def test_rloo_is_the_distance_from_the_mean_of_the_others():
    for rewards in random_groups(1):
        others = [np.delete(rewards, i).mean() for i in range(rewards.size)]
        np.testing.assert_allclose(of(rewards, "rloo"), rewards - others, atol=1e-12)


def test_maxrl_averages_the_scores_of_successes_less_those_of_all():
    """The paper's estimator for rewards 0 and 1, with its control variate: (1/K) Σ over successes of g - (1/n) Σ g."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        rewards = (rng.uniform(size=8) < 0.4).astype(float)
        if 0 < rewards.sum() < 8:
            scores = rng.normal(size=(8, 3))
            expected = scores[rewards == 1].mean(axis=0) - scores.mean(axis=0)
            np.testing.assert_allclose(of(rewards, "maxrl") @ scores / 8, expected, atol=1e-12)


def test_reinforce_plus_plus_has_unit_variance_over_the_step_and_not_in_a_group():
    for seed in range(20):
        rewards = [*random_groups(seed), [0.5, 0.5], []]
        groups = [[Trajectory((3,), (4, 1), a) for a in of(each, "reinforce++").tolist()] for each in rewards]
        scaled = scaled_over_step(groups)
        before, after = (np.array([t.advantage for group in each for t in group]) for each in (groups, scaled))
        np.testing.assert_allclose(after, (before - before.mean()) / (before.std() + 1e-6), atol=1e-9)
        assert (after.mean(), after.std()) == (pytest.approx(0, abs=1e-9), pytest.approx(1, abs=1e-4))
        assert (after[-2:] == 0).all()  # exactly: a group of equal rewards still teaches nothing
        assert [[t.completion for t in group] for group in scaled] == [[t.completion for t in g] for g in groups]
    nothing = [[Trajectory((3,), (4, 1), 0.0)], []]
    assert scaled_over_step(nothing) == nothing and scaled_over_step([]) == []


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("rewards", [[0.1] * 3, [0.7] * 8, [0.3], [], [-0.2, -0.2]])
def test_an_equal_group_has_advantages_of_exactly_zero(rewards, estimator):
    assert group_advantages(rewards, estimator).tolist() == [0.0] * len(rewards)


def test_a_reward_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="finite"):
        group_advantages([0.5, float("nan")])
