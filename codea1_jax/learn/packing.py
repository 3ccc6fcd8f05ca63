"""Packing: ragged token sequences, end to end, into few rows of one static shape.

In a row a prompt is a segment with positions from 0, and the responses to it follow, each a segment whose parent it is.
So a prompt is computed once for all of its responses in a row.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from codea1_jax.config import PackingConfig
from codea1_jax.learn.batch import BatchWriter, Example, PackedBatch

Family = Sequence[Example]
"""Examples that share one context."""

Row = list[Family]

Shape = tuple[int, int]
"""Rows of a micro-batch, and their length."""


def pack(examples: Sequence[Example], config: PackingConfig, batch_shards: int = 1) -> list[PackedBatch]:
    """The fewest micro-batches that hold every example with something to learn; deterministic.

    All have the first of `micro_batch_shapes`; the last one has the second where that suffices. The parts of a
    micro-batch have about as much to attend to.
    """
    kept = [example for example in examples if example.learned]
    if not kept:
        return []
    full, half = micro_batch_shapes(config, max(example.length for example in kept), batch_shards)
    row_length = full[1]
    pieces = [piece for family in _families(kept) for piece in _pieces(family, row_length)]
    for halves in itertools.count(1):
        shapes = [full] * (halves // 2) + [half] * (halves % 2)
        if sum(map(math.prod, shapes)) < sum(map(_length, pieces)):
            continue
        rows = _fitted(pieces, [length for rows, length in shapes for _ in range(rows)])
        if rows is not None:
            return _written(rows, shapes, batch_shards)
    raise AssertionError("enough rows hold everything")


def micro_batch_shapes(config: PackingConfig, longest: int, batch_shards: int = 1) -> tuple[Shape, Shape]:
    """A full micro-batch, and one with half as many rows, or, where a part has one row, with rows of half the length.

    Rows are a multiple of `batch_shards`, into which the mesh splits a batch; `micro_batch_tokens` are of each part.
    The row length is doubled as long as an example of the `longest` length does not fit.
    """
    length = config.row_length
    while length < longest:
        length *= 2
    rows = max(1, config.micro_batch_tokens // length)
    half = (-(-rows // 2), length) if rows > 1 else (1, -(-length // 2))
    return (rows * batch_shards, length), (half[0] * batch_shards, half[1])


def padding(batches: Sequence[PackedBatch]) -> float:
    places = sum(batch.segment_ids.size for batch in batches)
    return 1 - sum(int(np.count_nonzero(batch.segment_ids)) for batch in batches) / places if places else 0.0


def _families(examples: Sequence[Example]) -> list[list[Example]]:
    found: dict[tuple[int, ...], list[Example]] = {}
    for example in examples:
        found.setdefault(tuple(example.context), []).append(example)
    return list(found.values())


def _pieces(family: Family, row_length: int) -> Iterator[Family]:
    """The family in parts that fit into a row, all but the last as full as can be."""
    rest: Family = sorted(family, key=_learned, reverse=True)
    while rest:
        piece, rest = _filled(rest, row_length)
        yield piece


def _filled(family: Family, room: int) -> tuple[Family, Family]:
    taken, others, room = [], [], room - len(family[0].context) + 1
    shortest = _learned(family[-1])
    for index, example in enumerate(family):
        if room < shortest:
            return taken, [*others, *family[index:]]
        fits = _learned(example) <= room
        (taken if fits else others).append(example)
        room -= _learned(example) if fits else 0
    return taken, others


def _fitted(pieces: Sequence[Family], rooms: Sequence[int]) -> list[Row] | None:
    """What each row holds, rows being of these lengths; None if they do not hold everything.

    Longest first, each into the row that it leaves least room in; then those that fit nowhere whole, which are divided
    where there is most room. Where none must be, they fit into 11/9 of the fewest rows.
    """
    room, rows, whole = np.array(rooms), [Row() for _ in rooms], sum(rooms)
    divided = []
    for piece in sorted(pieces, key=_length, reverse=True):
        left = room - _length(piece)
        tightest = int(np.argmin(np.where(left < 0, whole, left)))
        if left[tightest] < 0:
            divided.append(piece)
            continue
        room[tightest] = left[tightest]
        rows[tightest].append(piece)
    for piece in divided:
        rest = piece
        while rest:
            widest = int(np.argmax(room))
            part, rest = _filled(rest, int(room[widest]))
            if not part:
                return None
            room[widest] -= _length(part)
            rows[widest].append(part)
    return rows


def _written(rows: Sequence[Row], shapes: Sequence[Shape], batch_shards: int) -> list[PackedBatch]:
    """The micro-batches; of those with one shape each has rows of about as much to attend to."""
    batches, remaining = [], iter(rows)
    for (count, length), alike in itertools.groupby(shapes):
        those = sorted(itertools.islice(remaining, count * len(list(alike))), key=_visible, reverse=True)
        each = count // batch_shards
        for start in range(0, len(those), count):
            writer = BatchWriter(count, length)
            for index, row in enumerate(those[start : start + count]):  # dealt out to the parts in turn
                _write(writer, index % batch_shards * each + index // batch_shards, row)
            batches.append(writer.batch)
    return batches


def _visible(row: Row) -> int:
    pairs = 0
    for family in row:
        context, inputs = len(family[0].context), [_learned(example) - 1 for example in family]
        pairs += context * (context + 1) // 2 + sum(n * context + n * (n + 1) // 2 for n in inputs)
    return pairs


def _learned(example: Example) -> int:
    return len(example.learned)


def _length(family: Family) -> int:
    """Places that it is given: one more than it takes for each response but one, so that a row never has more targets
    than places."""
    return len(family[0].context) - 1 + sum(map(_learned, family)) if family else 0


def _write(writer: BatchWriter, row: int, families: Sequence[Family]) -> None:
    start, segment = 0, 1
    for family in families:
        context, parent = family[0].context, segment
        writer.place(row, start, context, position=0, segment=parent, parent=parent)
        start += len(context)
        last = start - 1  # predicts the first token of every response
        for example in family:
            segment += 1
            inputs = np.asarray(example.learned[:-1], np.int32)
            writer.place(row, start, inputs, position=len(context), segment=segment, parent=parent)
            places = np.arange(start - 1, start + len(inputs))
            places[0] = last
            writer.learn(row, places, example)
            start += len(inputs)
        segment += 1
