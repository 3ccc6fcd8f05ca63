import numpy as np

from codea1_jax.game.selection import most_contested


def test_the_candidates_with_the_largest_spread_are_elected():
    rng = np.random.default_rng(0)
    rewards = rng.random((8, 8)).round(3).tolist()
    order = np.argsort(-np.std(rewards, axis=1), kind="stable")
    for count in (1, 3, 8):
        assert most_contested(rewards, count) == tuple(sorted(order[:count]))


def test_ties_go_to_the_lower_index():
    assert most_contested([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.2, 0.3]], 1) == (1,)


def test_a_candidate_without_suites_has_no_spread():
    assert most_contested([[], [0.1, 0.2]], 1) == (1,)
