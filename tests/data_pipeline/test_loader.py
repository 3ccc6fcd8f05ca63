"""The loader, against the definition of its batches: complete, shuffled, divided, resumable."""

from itertools import islice

import pytest

from data_pipeline import micro
from data_pipeline.loader import batches

PROBLEMS = micro.problems("train", 10, seed=0)


def ids(batch) -> list[str]:
    return [problem.id for problem in batch]


def drawn(count: int, batch_size: int, seed: int) -> list[list[str]]:
    return [ids(batch) for batch in islice(batches(PROBLEMS, batch_size, seed), count)]


def test_an_epoch_has_every_problem_at_most_once_and_drops_its_own_incomplete_batch():
    taken = drawn(6, 4, seed=0)
    assert [len(batch) for batch in taken] == [4] * 6
    for epoch in (taken[:2], taken[2:4], taken[4:]):
        assert len({*epoch[0], *epoch[1]}) == 8


def test_the_seed_reshuffles_every_epoch():
    first, second, third = (drawn(4, 5, seed) for seed in (0, 0, 1))
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
