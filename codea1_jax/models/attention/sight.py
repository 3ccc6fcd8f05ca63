"""What each place of a packed row may look at."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

# Finite, so that no difference of two masked scores is a NaN.
MASKED = -1e30

MIXED = "mixed"  # the name of what a layer's attention has computed, for those who say what a backward pass recomputes


class Sight(NamedTuple):
    """What each place may look at: earlier places of its own segment, and of that segment's parent.

    Segment 0 is padding, of which kernels may compute anything. Every other segment lies in one run, and is its own
    parent or follows its parent, with only other children of that between them. Arrays of NumPy or of JAX.
    """

    segments: Int[Any, "batch time"]
    parents: Int[Any, "batch time"]

    @classmethod
    def within(cls, segments: Int[Any, "batch time"]) -> "Sight":
        """The sight within segments without parents (padding is one of them)."""
        return cls(segments, segments)

    def mask(self, start: int, end: int) -> Bool[Array, "batch query key"]:
        keys = self.segments[:, None, :end]
        own, parent = self.segments[:, start:end, None], self.parents[:, start:end, None]
        return visible(own, parent, jnp.arange(start, end)[None, :, None], keys, jnp.arange(end)[None, None])

    def padded(self, length: int) -> "Sight":
        padding = length - self.segments.shape[1]
        return Sight(*(_library(ids).pad(ids, ((0, 0), (0, padding))) for ids in self))

    def tiles(self, block: int) -> Bool[Any, "batch blocks blocks"]:
        """True where a query of one block may see a key of another: what a kernel has to compute.

        False where only padding would see padding, except for the diagonal. The time is a multiple of `block`.
        """
        np_or_jnp, (batch, time) = _library(self.segments), self.segments.shape
        places, starts = np_or_jnp.arange(time), np_or_jnp.arange(0, time, block)
        before = np_or_jnp.pad(self.segments[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
        begins = np_or_jnp.where(self.segments != before, places[None], 0)
        run_starts = np.maximum.accumulate(begins, axis=1) if np_or_jnp is np else jax.lax.cummax(begins, axis=1)
        # A block's first query reaches back furthest. Nothing else that later queries see lies before the block.
        own, parent = self.segments[:, ::block], self.parents[:, ::block]
        reach = np_or_jnp.where(own > 0, run_starts[:, ::block], starts[None])
        in_own = starts[None, None] + block > reach[:, :, None]
        of_parent = (self.segments[:, None] == parent[:, :, None]) & (parent > 0)[:, :, None]
        in_parent = of_parent.reshape(batch, starts.size, starts.size, block).any(axis=-1)
        return (in_own | in_parent) & np.tril(np.ones((1, starts.size, starts.size), bool))


def _library(x: Any) -> Any:
    """NumPy for its arrays, so that a plan, which counts tiles, needs no device."""
    return np if isinstance(x, np.ndarray) else jnp


def visible(own: Array, parent: Array, place: Array, key: Array, key_place: Array) -> Array:
    """Whether a query at `place` in segment `own`, a child of `parent`, sees a key in segment `key` at `key_place`.

    The arrays are broadcast against each other.
    """
    return related(own, parent, key) & (key_place <= place)


def related(own: Array, parent: Array, key: Array) -> Array:
    """Whether a query in segment `own`, a child of `parent`, sees an earlier key in segment `key`."""
    return (key == own) | (key == parent)
