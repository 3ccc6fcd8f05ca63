"""Packing: ragged token sequences into few rows of one static shape, in one of two layouts.

*Segments*: sequences lie end to end in rows of `row_length`, whatever their lengths; each is a segment with
positions from 0. *Shared prompts*: a row holds one prompt and its responses, each in its own block, so that
the prompt is computed once and not once per response. The first wastes little on ragged responses; the second
does far less work where the prompt is long compared with responses of similar length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codea1_jax.config import PackingConfig
from codea1_jax.learn.batch import BatchWriter, Blocks, Example, PackedBatch

# Sizes that depend on the data are rounded up, so that few shapes are ever compiled: prompts and responses to
# a multiple of 16 tokens, rows and their slots to a multiple of a quarter of the most there can be.
GRAIN = 16
SHAPE_STEPS = 4


def pack(examples: Sequence[Example], config: PackingConfig, batch_shards: int = 1) -> list[PackedBatch]:
    """Micro-batches of one shape that hold every example with something to learn; deterministic.

    Rows are a multiple of `batch_shards`, into which the mesh splits a batch; `micro_batch_tokens` are of each part.
    """
    kept = [example for example in examples if example.learned]
    if not kept:
        return []
    return (
        pack_shared_prompts(kept, config, batch_shards)
        if config.share_prompts
        else pack_segments(kept, config, batch_shards)
    )


def pack_segments(examples: Sequence[Example], config: PackingConfig, batch_shards: int = 1) -> list[PackedBatch]:
    """Rows of independent segments; the row length is doubled as long as an example does not fit."""
    row_length = config.row_length
    while row_length < max(example.length for example in examples):
        row_length *= 2
    rows = _first_fit_decreasing(examples, row_length)
    most = max(sum(len(example.learned) for example in row) for row in rows)
    slots = _in_quarters(most, row_length)
    batch_rows = _rows_per_batch(len(rows), row_length, config, batch_shards)

    def fill(rows: Sequence[Sequence[Example]]) -> PackedBatch:
        writer = BatchWriter(batch_rows, row_length, slots)
        for row, members in enumerate(rows):
            start = 0
            for segment, example in enumerate(members, start=1):
                inputs = (*example.context, *example.learned)[:-1]
                writer.place(row, start, inputs, position=0, segment=segment)
                first = start + len(example.context) - 1
                writer.learn(row, first + np.arange(len(example.learned)), example)
                start += len(inputs)
        return writer.batch

    return [fill(rows[start : start + batch_rows]) for start in range(0, len(rows), batch_rows)]


def pack_shared_prompts(examples: Sequence[Example], config: PackingConfig, batch_shards: int = 1) -> list[PackedBatch]:
    """One row per context; `row_length` is not used: a row is as long as the longest context and responses ask."""
    by_context: dict[tuple[int, ...], list[Example]] = {}
    for example in examples:
        by_context.setdefault(tuple(example.context), []).append(example)
    prompt = _rounded_up(max(map(len, by_context)), GRAIN)
    block = _rounded_up(max(len(example.learned) for example in examples), GRAIN)
    samples = max(map(len, by_context.values()))
    row_length = prompt + samples * block
    rows = list(by_context.items())
    batch_rows = _rows_per_batch(len(rows), row_length, config, batch_shards)

    def fill(rows: Sequence[tuple[tuple[int, ...], list[Example]]]) -> PackedBatch:
        writer = BatchWriter(batch_rows, row_length, samples * block, Blocks(prompt, block))
        for row, (context, members) in enumerate(rows):
            writer.place(row, 0, context, position=0, segment=1)
            for index, example in enumerate(members):
                start = prompt + index * block
                inputs = example.learned[:-1]
                writer.place(row, start, inputs, position=len(context), segment=index + 2)
                writer.learn(row, [len(context) - 1, *range(start, start + len(inputs))], example)
        return writer.batch

    return [fill(rows[start : start + batch_rows]) for start in range(0, len(rows), batch_rows)]


def _first_fit_decreasing(examples: Sequence[Example], row_length: int) -> list[list[Example]]:
    """Longest first, each into the first row with room for it (within 11/9 of the fewest rows)."""
    lengths = np.array([example.length for example in examples])
    room = np.full(len(examples), row_length)
    rows: list[list[Example]] = [[] for _ in examples]
    for index in np.argsort(-lengths, kind="stable"):
        row = int(np.argmax(room >= lengths[index]))
        rows[row].append(examples[index])
        room[row] -= lengths[index]
    return [row for row in rows if row]


def _rows_per_batch(rows: int, row_length: int, config: PackingConfig, batch_shards: int) -> int:
    """Rows of each micro-batch when all are shared out evenly to as few micro-batches, and shards, as possible."""
    most = max(1, config.micro_batch_tokens // row_length)
    batches = -(-rows // (most * batch_shards))
    return batch_shards * _in_quarters(-(-rows // (batches * batch_shards)), most)


def _in_quarters(size: int, most: int) -> int:
    return min(_rounded_up(size, -(-most // SHAPE_STEPS)), most)


def _rounded_up(size: int, step: int) -> int:
    return -(-size // step) * step
