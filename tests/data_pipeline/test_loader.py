"""The loader, against the definition of its batches: complete, shuffled, divided, resumable."""

import pytest

from data_pipeline import micro
from data_pipeline.loader import batches

PROBLEMS = micro.problems("train", 10, seed=0)


def ids(batch) -> list[str]:
    return [problem.id for problem in batch]


def test_an_epoch_has_every_problem_at_most_once_and_no_incomplete_batch():
    epoch = list(batches(PROBLEMS, 4, seed=0, epochs=1))
    assert [len(batch) for batch in epoch] == [4, 4]
    drawn = [problem for batch in epoch for problem in batch]
    assert len(set(drawn)) == 8 and set(drawn) <= set(PROBLEMS)


def test_each_epoch_drops_its_own_incomplete_batch():
    """9,688 questions in batches of 256 for 3 epochs are 3 x 37 = 111 steps, not 9,688 x 3 // 256 = 113."""
    numbers = range(9688)
    assert sum(1 for _ in batches(numbers, 256, seed=0, epochs=3)) == 111  # type: ignore[arg-type]


def test_the_seed_reshuffles_every_epoch():
    first, second, third = ([ids(batch) for batch in batches(PROBLEMS, 5, seed=seed, epochs=2)] for seed in (0, 0, 1))
    assert first == second != third
    assert first[:2] != first[2:]


def test_a_restored_iterator_resumes_exactly_across_epochs():
    straight = batches(PROBLEMS, 4, seed=5)
    expected = [ids(next(straight)) for _ in range(9)]
    stopped = batches(PROBLEMS, 4, seed=5)
    assert [ids(next(stopped)) for _ in range(3)] == expected[:3]
    resumed = batches(PROBLEMS, 4, seed=5)
    resumed.set_state(stopped.get_state())
    assert [ids(next(resumed)) for _ in range(6)] == expected[3:]


def test_an_impossible_batch_is_an_error():
    with pytest.raises(ValueError, match="a batch of 11 problems cannot be drawn from 10"):
        batches(PROBLEMS, 11, seed=0)
