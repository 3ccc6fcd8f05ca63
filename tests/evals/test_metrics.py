import itertools

import numpy as np
import pytest

from codea1_jax.evals.metrics import estimate, mul, pass_at_k


@pytest.mark.parametrize("samples", [1, 2, 5, 7])
def test_pass_at_k_is_the_share_of_k_subsets_that_hold_a_correct_sample(samples):
    for correct, k in itertools.product(range(samples + 1), range(1, samples + 1)):
        subsets = list(itertools.combinations([i < correct for i in range(samples)], k))
        assert pass_at_k(samples, correct, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_mul_of_the_papers_table():
    assert mul(27.05, 26.41) == pytest.approx(7.14, abs=0.005)


SHARES = [0.0, 0.25, 1.0, 0.5, 0.75, 1.0, 0.125]


def test_an_estimate_is_the_mean_with_numpys_percentiles_of_resampled_means():
    found = estimate(SHARES)
    generator = np.random.default_rng(0)
    means = [100 * np.mean(generator.choice(SHARES, len(SHARES))) for _ in range(20_000)]
    assert found.value == pytest.approx(100 * np.mean(SHARES))
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])), abs=2.5)
    assert estimate(SHARES) == found
    exact = estimate([0.5] * 4)
    assert (exact.value, exact.low, exact.high) == (50, 50, 50)


def test_mul_is_estimated_over_the_same_problems_for_both_factors():
    right, killed = SHARES, SHARES[::-1]
    found = estimate(right, killed)
    assert found.value == pytest.approx(mul(100 * np.mean(right), 100 * np.mean(killed)))
    generator = np.random.default_rng(1)
    places = generator.integers(0, len(right), (20_000, len(right)))
    products = 100 * np.take(right, places).mean(1) * np.take(killed, places).mean(1)
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(products, [2.5, 97.5])), abs=2.5)


def test_there_is_no_figure_of_nothing():
    with pytest.raises(ValueError, match="no problem"):
        estimate([])
    for k in (0, 4):
        with pytest.raises(ValueError, match=f"pass@{k} needs"):
            pass_at_k(3, 1, k)
