"""Log-probabilities and entropies of given tokens, without ever holding a batch's logits.

A 4096-token sequence over Qwen2.5's 151,936-word vocabulary has 2.5 GB of float32 logits. Here they exist for
one chunk of tokens at a time, forwards and backwards.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.runtime.layout import batch_shards, constrain


def token_logprobs(
    hidden: Float[Array, "batch time width"],
    table: Float[Array, "vocab width"],
    targets: Int[Array, "batch time"],
    *,
    chunk: int = 1024,
    temperature: float = 1.0,
) -> tuple[Float[Array, "batch time"], Float[Array, "batch time"]]:
    """log p(target) and the entropy (nats) of the softmax over `hidden @ table.T / temperature`, in float32.

    `chunk` is the number of tokens whose logits exist at once (in each part of a batch split over a mesh),
    rounded to whole time steps. The product is taken in `hidden`'s precision and summed in float32. The table's
    gradient is summed over chunks in the table's own precision: hand it in as it is kept.
    """
    time = hidden.shape[1]
    steps = min(time, max(1, chunk * batch_shards() // hidden.shape[0]))
    padding = -time % steps
    # Cut along time, so that every device works on its own part of the batch in every chunk.
    pieces = _cut(jnp.pad(hidden, ((0, 0), (0, padding), (0, 0))), steps)
    goals = _cut(jnp.pad(targets, ((0, 0), (0, padding))), steps)
    table = constrain(table, "vocab", "width")
    return jax.tree.map(lambda x: _join(x)[:, :time], _scores(temperature, pieces, table, goals))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _scores(temperature: float, pieces: Array, table: Array, goals: Array) -> tuple[Array, Array]:
    return _scores_forward(temperature, pieces, table, goals)[0]


def _scores_forward(
    temperature: float, pieces: Array, table: Array, goals: Array
) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
    product_table = table.astype(pieces.dtype)  # once, not in every chunk

    def one_chunk(piece: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        states, targets = piece
        logits = _logits(temperature, states, product_table)
        largest = jnp.max(logits, axis=-1)
        # What follows reads the logits once, for all three sums.
        logits = logits - largest[..., None]
        weights = jnp.exp(logits)
        total = jnp.sum(weights, axis=-1)
        expected = jnp.sum(weights * logits, axis=-1) / total
        # A sum over the one that is chosen: a device that holds a part of the vocabulary needs no other's logits.
        chosen = jnp.sum(jnp.where(_is_target(targets, table), logits, 0), axis=-1)
        log_total = jnp.log(total)
        return chosen - log_total, log_total - expected, largest + log_total

    logprobs, entropy, normalizer = jax.lax.map(one_chunk, (pieces, goals))
    return (logprobs, entropy), (pieces, table, goals, normalizer, entropy)


def _scores_backward(
    temperature: float, kept: tuple[Array, ...], gradients: tuple[Array, Array]
) -> tuple[Array, Array, None]:
    """With p the softmax and H its entropy: d log p(target) = onehot - p, and dH = -p (log p + H)."""
    pieces, table, goals, normalizer, entropy = kept
    product_table = table.astype(pieces.dtype)

    def one_chunk(to_table: Array, piece: tuple[Array, ...]) -> tuple[Array, Array]:
        states, targets, *of_tokens = piece
        normalizer, entropy, to_logprob, to_entropy = (x[..., None] for x in of_tokens)
        logprobs = _logits(temperature, states, product_table) - normalizer
        p = jnp.exp(logprobs)
        change = jnp.where(_is_target(targets, table), to_logprob, 0) - p * (
            to_logprob + to_entropy * (logprobs + entropy)
        )
        change = (change / temperature).astype(states.dtype)
        to_states = jnp.einsum("btv,vw->btw", change, product_table)
        to_table += jnp.einsum("btv,btw->vw", change, states, preferred_element_type=table.dtype)
        return to_table, to_states

    of_chunks = (pieces, goals, normalizer, entropy, *gradients)
    to_table, to_pieces = jax.lax.scan(one_chunk, jnp.zeros_like(table), of_chunks)
    return to_pieces, to_table, None


_scores.defvjp(_scores_forward, _scores_backward)


def _logits(temperature: float, states: Array, table: Array) -> Float[Array, "batch time vocab"]:
    states = constrain(states, "batch", "time", "width")
    product = jnp.einsum("btw,vw->btv", states, table, preferred_element_type=jnp.float32)
    return constrain(product, "batch", "time", "vocab") / temperature


def _is_target(targets: Array, table: Array) -> Bool[Array, "batch time vocab"]:
    return targets[..., None] == jnp.arange(table.shape[0])[None, None]


def _cut(x: Array, steps: int) -> Array:
    """(batch, time, ...) -> (chunks, batch, steps, ...)"""
    batch, time = x.shape[:2]
    return jnp.moveaxis(x.reshape(batch, time // steps, steps, *x.shape[2:]), 1, 0)


def _join(x: Array) -> Array:
    """(chunks, batch, steps) -> (batch, time)"""
    return jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1)
