"""Endless passes over problems in batches, resumable at any batch."""

from collections.abc import Sequence

import grain

from data_pipeline.problem import Problem


def batches(problems: Sequence[Problem], batch_size: int, seed: int) -> grain.DatasetIterator[tuple[Problem, ...]]:
    """An iterator over batches; `get_state` and `set_state` resume it exactly.

    The seed reshuffles every epoch, and an incomplete last batch is dropped. Raises ValueError if no batch can be made.
    """
    if not 0 < batch_size <= len(problems):
        raise ValueError(f"a batch of {batch_size} problems cannot be drawn from {len(problems)}")
    dataset = (
        grain.MapDataset.source(tuple(problems))
        .seed(seed)
        .shuffle()
        .batch(batch_size, drop_remainder=True, batch_fn=tuple)
        .repeat()
    )
    # The problems are in memory: threads and prefetching would only cost.
    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    return iter(dataset.to_iter_dataset(options))
