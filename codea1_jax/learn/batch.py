"""Packing: ragged token sequences into few rows of one static shape.

Sequences lie end to end in a row, each a segment with its own id and with positions from 0; padding is
segment 0. Only the tokens that are learned from have a *slot*: the place whose hidden state predicts the
token, the token, and its weight. So prompts reach neither the loss nor the vocabulary projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from codea1_jax.learn.config import PackingConfig

# A row has a multiple of an eighth of its length in slots, so batches come in few shapes.
SLOT_STEPS = 8


@dataclass(frozen=True)
class Trajectory:
    """One response to one prompt. `completion` ends with the end-of-sequence token unless it was cut off."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    advantage: float
    truncated: bool = False


@dataclass(frozen=True)
class Example:
    """Context tokens, and the tokens that follow, each with the weight with which it is learned.

    Raises:
        ValueError: learned tokens without weights, or without context to be predicted from.
    """

    context: Sequence[int]
    learned: Sequence[int]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.learned) != len(self.weights):
            raise ValueError(f"{len(self.learned)} learned tokens have {len(self.weights)} weights")
        if not self.context:
            raise ValueError("a sequence needs at least one context token: its first is predicted by nothing")

    @property
    def length(self) -> int:
        """Places it takes in a row: the last token predicts nothing, so it is never an input."""
        return len(self.context) + len(self.learned) - 1


def trajectory_example(trajectory: Trajectory) -> Example:
    """A response to learn from: every token of the completion, the end-of-sequence token included."""
    completion = trajectory.completion
    return Example(trajectory.prompt, completion, (trajectory.advantage,) * len(completion))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PackedBatch:
    """Packed rows and their slots. Slots past a row's last have mask 0 and point at place 0.

    `weights` are advantages, or loss weights. The log-probabilities come from passes of their own.
    """

    tokens: Int[Any, "rows time"]
    positions: Int[Any, "rows time"]
    segment_ids: Int[Any, "rows time"]
    places: Int[Any, "rows slots"]
    targets: Int[Any, "rows slots"]
    mask: Float[Any, "rows slots"]
    weights: Float[Any, "rows slots"]
    old_logprobs: Float[Any, "rows slots"] | None = None
    reference_logprobs: Float[Any, "rows slots"] | None = None


def pack(examples: Sequence[Example], config: PackingConfig) -> list[PackedBatch]:
    """Micro-batches of one shape that hold every example with something to learn; deterministic."""
    kept = [example for example in examples if example.learned]
    if not kept:
        return []
    row_length = config.row_length
    while row_length < max(example.length for example in kept):
        row_length *= 2
    rows = _first_fit_decreasing(kept, row_length)
    step = -(-row_length // SLOT_STEPS)
    most = max(sum(len(example.learned) for example in row) for row in rows)
    slots = min(-(-most // step) * step, row_length)
    batch_rows = max(1, config.micro_batch_tokens // row_length)
    return [
        _fill(rows[start : start + batch_rows], (batch_rows, row_length), slots)
        for start in range(0, len(rows), batch_rows)
    ]


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


def _fill(rows: Sequence[Sequence[Example]], shape: tuple[int, int], slots: int) -> PackedBatch:
    tokens, positions, segment_ids = (np.zeros(shape, np.int32) for _ in range(3))
    places, targets = (np.zeros((shape[0], slots), np.int32) for _ in range(2))
    mask, weights = (np.zeros((shape[0], slots), np.float32) for _ in range(2))
    for row, examples in enumerate(rows):
        start = slot = 0
        for segment, example in enumerate(examples, start=1):
            inputs = slice(start, start + example.length)
            tokens[row, inputs] = (*example.context, *example.learned)[:-1]
            positions[row, inputs] = np.arange(example.length)
            segment_ids[row, inputs] = segment
            learned = slice(slot, slot + len(example.learned))
            places[row, learned] = start + len(example.context) - 1 + np.arange(len(example.learned))
            targets[row, learned] = example.learned
            mask[row, learned] = 1
            weights[row, learned] = example.weights
            start, slot = inputs.stop, learned.stop
    return PackedBatch(tokens, positions, segment_ids, places, targets, mask, weights)
