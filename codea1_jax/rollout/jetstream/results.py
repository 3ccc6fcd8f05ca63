"""A block of drawn tokens in the form that JetStream passes on: one array, which also holds what JetStream drops."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from codea1_jax.rollout.cache import columns_before
from codea1_jax.rollout.decode import DecodedBlock, Rows
from codea1_jax.rollout.jetstream.shims import engine_api


class Token(int):
    """A drawn token with its logprob, for which JetStream's results have no place."""

    logprob: float

    @classmethod
    def of(cls, token: int, logprob: float) -> Token:
        made = cls(token)
        made.logprob = logprob
        return made

    def item(self) -> Token:
        """Itself: JetStream takes tokens out of an array of numbers."""
        return self


@jax.jit
def _pack(block: DecodedBlock, num_generated: Int[Array, "slots width"]) -> Int[Array, "rows columns"]:
    steps, slots, width = block.tokens.shape

    def by_row(values: Array) -> Array:
        return jnp.moveaxis(values, 0, -1).reshape(slots * width, -1)

    parts = [
        by_row(block.tokens),
        columns_before(block.count.reshape(-1), steps).astype(jnp.int32),
        num_generated.reshape(-1, 1),
        block.active.reshape(-1, 1).astype(jnp.int32),
        by_row(jax.lax.bitcast_convert_type(block.logprobs, jnp.int32)),
    ]
    return jnp.concatenate(parts, axis=1)


class BlockTokens(engine_api.ResultTokens):
    """A block's tokens as JetStream wants them: one int32 array [slots * samples, ...] for one copy to the host.

    Its columns: tokens, whether each is valid, the sample's length so far, whether it has more to come, and the bits
    of the logprobs.
    """

    @classmethod
    def of(cls, block: DecodedBlock, rows: Rows) -> BlockTokens:
        """A block, still on the device, and where its rows stand after it."""
        steps, _, width = block.tokens.shape
        return cls(_pack(block, rows.num_generated), (0, steps), (steps, 2 * steps), (2 * steps, 2 * steps + 1), width)

    def convert_to_numpy(self) -> BlockTokens:
        """The same on the host. Raises FloatingPointError if the policy's logits are not finite."""
        on_host = BlockTokens(
            np.asarray(self.data), self.tokens_idx, self.valid_idx, self.length_idx, self.samples_per_slot
        )
        if not np.isfinite(on_host.logprobs).all():
            raise FloatingPointError("the policy's logprobs are not finite: its parameters are broken")
        return on_host

    @property
    def logprobs(self) -> np.ndarray:
        """Float32 [slots * samples, block]."""
        return np.ascontiguousarray(np.asarray(self.data)[:, self.length_idx[1] + 1 :]).view(np.float32)

    def get_result_at_slot(self, slot: int) -> engine_api.SlotData:
        """A slot's samples; their tokens are `Token`s."""
        found = super().get_result_at_slot(slot)
        rows = slice(slot * self.samples_per_slot, (slot + 1) * self.samples_per_slot)
        tokens = np.vectorize(Token.of, otypes=[object])(found.tokens, self.logprobs[rows])
        return engine_api.SlotData(tokens=tokens, valid=found.valid, lengths=found.lengths)

    def as_block(self) -> DecodedBlock:
        """The same as the core's own result, on the host."""
        found = self.convert_to_numpy()

        def by_slot(values: np.ndarray) -> Any:
            return values.reshape(-1, self.samples_per_slot, *values.shape[1:])

        host = np.asarray(found.data)
        tokens = by_slot(host[:, slice(*self.tokens_idx)]).transpose(2, 0, 1)
        logprobs = by_slot(found.logprobs).transpose(2, 0, 1)
        count = by_slot(host[:, slice(*self.valid_idx)].sum(axis=1, dtype=np.int32))
        return DecodedBlock(tokens, logprobs, count, by_slot(host[:, self.length_idx[1]] != 0), steps=count.max())
