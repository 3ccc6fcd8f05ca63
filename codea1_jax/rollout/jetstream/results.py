"""A block of drawn tokens in the form that JetStream passes on: one array, which also holds what JetStream drops."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from codea1_jax.rollout.attend import columns_before
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
def _pack(block: DecodedBlock, num_generated: Int[Array, " rows"]) -> Int[Array, "rows columns"]:
    parts = [
        block.tokens.T,
        columns_before(block.count, len(block.tokens)).astype(jnp.int32),
        num_generated[:, None],
        block.active[:, None].astype(jnp.int32),
        jax.lax.bitcast_convert_type(block.logprobs.T, jnp.int32),
    ]
    return jnp.concatenate(parts, axis=1)


class BlockTokens(engine_api.ResultTokens):
    """A block's tokens as JetStream wants them: one int32 array [rows, ...] for one copy to the host.

    Its columns: tokens, whether each is valid, the sample's length so far, whether it has more to come, and the bits
    of the logprobs.
    """

    @classmethod
    def of(cls, block: DecodedBlock, rows: Rows, width: int) -> BlockTokens:
        """A block, still on the device, and where its rows stand after it; each slot has `width` of them."""
        steps = len(block.tokens)
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
        """Float32 [rows, block]."""
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
        host = np.asarray(found.data)
        tokens: Any = host[:, slice(*self.tokens_idx)].T
        logprobs: Any = found.logprobs.T
        count: Any = host[:, slice(*self.valid_idx)].sum(axis=1, dtype=np.int32)
        active: Any = host[:, self.length_idx[1]] != 0
        return DecodedBlock(tokens, logprobs, count, active, steps=count.max())
