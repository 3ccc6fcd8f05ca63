"""Packing: ragged token sequences, end to end, into few rows of one static shape.

In a row a prompt is a segment with positions from 0, and the responses to it follow, each a segment whose parent it is.
So a prompt is computed once for all of its responses in a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codea1_jax.config import PackingConfig
from codea1_jax.learn.batch import BatchWriter, Example, PackedBatch

# Rows and their targets are rounded up to a multiple of a quarter of the most there can be, so that few shapes are ever
# compiled.
SHAPE_STEPS = 4

Family = Sequence[Example]
"""Examples that share one context."""


def pack(examples: Sequence[Example], config: PackingConfig, batch_shards: int = 1) -> list[PackedBatch]:
    """Micro-batches of one shape that hold every example with something to learn; deterministic.

    Rows are a multiple of `batch_shards`, into which the mesh splits a batch; `micro_batch_tokens` are of each part.
    The row length is doubled as long as an example does not fit.
    """
    kept = [example for example in examples if example.learned]
    if not kept:
        return []
    row_length = config.row_length
    while row_length < max(example.length for example in kept):
        row_length *= 2
    rows = _first_fit_decreasing(_families(kept), row_length)
    most = max(sum(len(example.learned) for family in row for example in family) for row in rows)
    slots = _in_quarters(most, row_length)
    batch_rows = _rows_per_batch(len(rows), row_length, config, batch_shards)
    batches = []
    for start in range(0, len(rows), batch_rows):
        writer = BatchWriter(batch_rows, row_length, slots)
        for row, families in enumerate(rows[start : start + batch_rows]):
            _write(writer, row, families)
        batches.append(writer.batch)
    return batches


def padding(batches: Sequence[PackedBatch]) -> float:
    """The share of the places that hold no token; 0 of no batch."""
    places = sum(batch.segment_ids.size for batch in batches)
    return 1 - sum(int(np.count_nonzero(batch.segment_ids)) for batch in batches) / places if places else 0.0


def _families(examples: Sequence[Example]) -> list[list[Example]]:
    found: dict[tuple[int, ...], list[Example]] = {}
    for example in examples:
        found.setdefault(tuple(example.context), []).append(example)
    return list(found.values())


def _first_fit_decreasing(families: Sequence[Family], row_length: int) -> list[list[Family]]:
    """Longest first, each example into a row that has its context, or else into the first one with room for both.

    Of families of one, within 11/9 of the fewest rows.
    """
    room = np.full(sum(map(len, families)), row_length)
    rows: list[list[Family]] = [[] for _ in room]
    for family in sorted(families, key=_length, reverse=True):
        here: dict[int, list[Example]] = {}
        for example in sorted(family, key=lambda example: example.length, reverse=True):
            # A place more than it takes, so that a row never has more targets than places.
            row = next((row for row in here if room[row] >= len(example.learned)), None)
            if row is None:
                row = int(np.argmax(room >= example.length))
                room[row] -= example.length
                here[row] = [example]
                rows[row].append(here[row])
            else:
                room[row] -= len(example.learned)
                here[row].append(example)
    return [row for row in rows if row]


def _length(family: Family) -> int:
    """Places of the shared context and all that is learned."""
    return len(family[0].context) + sum(len(example.learned) - 1 for example in family)


def _write(writer: BatchWriter, row: int, families: Sequence[Family]) -> None:
    start, segment = 0, 1
    for family in families:
        context, parent = family[0].context, segment
        writer.place(row, start, context, position=0, segment=parent, parent=parent)
        start += len(context)
        last = start - 1  # predicts the first token of every response
        for example in family:
            segment += 1
            inputs = example.learned[:-1]
            writer.place(row, start, inputs, position=len(context), segment=segment, parent=parent)
            writer.learn(row, [last, *range(start, start + len(inputs))], example)
            start += len(inputs)
        segment += 1


def _rows_per_batch(rows: int, row_length: int, config: PackingConfig, batch_shards: int) -> int:
    """Rows of each micro-batch when all are shared out evenly to as few micro-batches, and shards, as possible."""
    most = max(1, config.micro_batch_tokens // row_length)
    batches = -(-rows // (most * batch_shards))
    return batch_shards * _in_quarters(-(-rows // (batches * batch_shards)), most)


def _in_quarters(size: int, most: int) -> int:
    step = -(-most // SHAPE_STEPS)
    return min(-(-size // step) * step, most)
