"""Log-probabilities and entropies of given tokens, without ever holding a batch's logits.

A 4096-token sequence over Qwen2.5's 151,936-word vocabulary has 2.5 GB of float32 logits. Here they exist for
one chunk of tokens at a time, forwards and backwards.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def token_logprobs(
    hidden: Float[Array, "batch time width"],
    table: Float[Array, "vocab width"],
    targets: Int[Array, "batch time"],
    *,
    chunk: int = 1024,
    temperature: float = 1.0,
) -> tuple[Float[Array, "batch time"], Float[Array, "batch time"]]:
    """log p(target) and the entropy (nats) of the softmax over `hidden @ table.T / temperature`, in float32.

    `chunk` is the number of tokens whose logits exist at once.
    """
    batch, time, width = hidden.shape
    tokens = batch * time
    chunk = min(chunk, tokens)
    padding = -tokens % chunk
    flat = jnp.pad(hidden.reshape(tokens, width), ((0, padding), (0, 0))).reshape(-1, chunk, width)
    wanted = jnp.pad(targets.reshape(tokens), (0, padding)).reshape(-1, chunk)

    @jax.checkpoint
    def one_chunk(piece: tuple[Array, Array]) -> tuple[Array, Array]:
        states, goal = piece
        logits = jnp.einsum("cw,vw->cv", states, table, preferred_element_type=jnp.float32) / temperature
        normalizer = jax.nn.logsumexp(logits, axis=-1)
        chosen = jnp.take_along_axis(logits, goal[:, None], axis=-1)[:, 0]
        expected = jnp.sum(jnp.exp(logits - normalizer[:, None]) * logits, axis=-1)
        return chosen - normalizer, normalizer - expected

    logprobs, entropy = jax.lax.map(one_chunk, (flat, wanted))

    def unchunk(x: Array) -> Array:
        return x.reshape(-1)[:tokens].reshape(batch, time)

    return unchunk(logprobs), unchunk(entropy)
