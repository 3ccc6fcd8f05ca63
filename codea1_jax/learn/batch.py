"""What is learned from, and the static-shape batches that the jitted phases take.

Only the tokens that are learned are *targets*: each with its weight and the index of the place whose hidden state
predicts it. So prompts reach neither the loss nor the vocabulary projection.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class Trajectory:
    """One response to one prompt. `completion` ends with the end-of-sequence token unless it was cut off.

    logprobs: of the completion's tokens, by the sampler that drew them; empty where it gives none.
    """

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    advantage: float
    truncated: bool = False
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Example:
    """Context tokens, and the tokens that follow, each with the weight with which it is learned.

    logprobs: of the learned tokens, by the sampler that drew them; empty where it gives none.

    Raises ValueError for learned tokens without weights, without context to be predicted from, or some with and some
    without a sampler's logprob.
    """

    context: Sequence[int]
    learned: Sequence[int]
    weights: Sequence[float]
    logprobs: Sequence[float] = ()

    def __post_init__(self) -> None:
        if len(self.learned) != len(self.weights):
            raise ValueError(f"{len(self.learned)} learned tokens have {len(self.weights)} weights")
        if self.logprobs and len(self.logprobs) != len(self.learned):
            raise ValueError(f"{len(self.learned)} learned tokens have {len(self.logprobs)} of the sampler's logprobs")
        if not self.context:
            raise ValueError("a sequence needs at least one context token: its first is predicted by nothing")

    @property
    def length(self) -> int:
        """Places it takes in a row: the last token predicts nothing, so it is never an input."""
        return len(self.context) + len(self.learned) - 1


def trajectory_example(trajectory: Trajectory) -> Example:
    completion = trajectory.completion
    return Example(trajectory.prompt, completion, (trajectory.advantage,) * len(completion), trajectory.logprobs)


def weighted_example(tokens: Sequence[int], weights: Sequence[float]) -> Example:
    """A sequence whose tokens weigh `weights`; those before the first with a weight are context.

    Raises ValueError if lengths differ, or the first token, which nothing predicts, has a weight.
    """
    first = next((index for index, weight in enumerate(weights) if weight), len(tokens))
    return Example(tokens[:first], tokens[first:], weights[first:])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PackedBatch:
    """Rows of tokens and their targets. Targets past a row's last have mask 0 and point at place 0.

    Segments number prompts and responses in a row from 1; padding is segment 0, its own parent. A response's parent is
    its prompt, which is its own. `weights` are advantages, or loss weights. `sequences` numbers the responses of a row
    from 1. `rollout_logprobs` are NaN where unknown, `old_logprobs` where the policy is still the old one.
    """

    tokens: Int[Any, "rows time"]
    positions: Int[Any, "rows time"]
    segment_ids: Int[Any, "rows time"]
    parents: Int[Any, "rows time"]
    target_index: Int[Any, "rows targets"]
    targets: Int[Any, "rows targets"]
    mask: Float[Any, "rows targets"]
    weights: Float[Any, "rows targets"]
    sequences: Int[Any, "rows targets"]
    rollout_logprobs: Float[Any, "rows targets"]
    old_logprobs: Float[Any, "rows targets"]
    reference_logprobs: Float[Any, "rows targets"] | None = None


class BatchWriter:
    """An empty batch to be filled by segments and targets, of which a row has room for as many as it has places."""

    def __init__(self, rows: int, time: int) -> None:
        shape = (rows, time)
        names = ("tokens", "positions", "segment_ids", "parents", "target_index", "targets", "sequences")
        numbers: Any = {name: np.zeros(shape, np.int32) for name in names}
        numbers |= {name: np.zeros(shape, np.float32) for name in ("mask", "weights")}
        numbers |= {name: np.full(shape, np.nan, np.float32) for name in ("rollout_logprobs", "old_logprobs")}
        self._used, self._responses = [0] * rows, [0] * rows
        self.batch = PackedBatch(**numbers)

    def place(
        self, row: int, start: int, tokens: Sequence[int] | np.ndarray, *, position: int, segment: int, parent: int
    ) -> None:
        here = slice(start, start + len(tokens))
        self.batch.tokens[row, here] = tokens
        self.batch.positions[row, here] = np.arange(position, position + len(tokens))
        self.batch.segment_ids[row, here] = segment
        self.batch.parents[row, here] = parent

    def learn(self, row: int, places: np.ndarray, example: Example) -> None:
        """Gives every learned token of an example the next target of the row; `places` predict them."""
        start = self._used[row]
        here = slice(start, start + len(example.learned))
        self.batch.target_index[row, here] = places
        self.batch.targets[row, here] = example.learned
        self.batch.mask[row, here] = 1
        self.batch.weights[row, here] = example.weights
        self._responses[row] += 1
        self.batch.sequences[row, here] = self._responses[row]
        if example.logprobs:
            self.batch.rollout_logprobs[row, here] = example.logprobs
        self._used[row] = here.stop
