import itertools

import pytest

from codea1_jax.evals.metrics import mul, pass_at_k


@pytest.mark.parametrize("samples", [1, 2, 5, 7])
def test_pass_at_k_is_the_share_of_k_subsets_that_hold_a_correct_sample(samples):
    for correct, k in itertools.product(range(samples + 1), range(1, samples + 1)):
        subsets = list(itertools.combinations([i < correct for i in range(samples)], k))
        assert pass_at_k(samples, correct, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_k_wants_at_least_k_samples(k):
    with pytest.raises(ValueError, match=f"pass@{k} needs"):
        pass_at_k(3, 1, k)


def test_mul_of_the_papers_table():
    assert mul(27.05, 26.41) == pytest.approx(7.14, abs=0.005)
