"""Drawing tokens from logits.

A token is drawn by inverting the cumulative distribution at one uniform number per row, not by adding noise
to every logit: random bits are by far the dearest part of Gumbel sampling on a CPU. Top-k and top-p find
their threshold by its bits, a few at a time, so no step ever sorts the vocabulary.
"""

from enum import StrEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from codea1_jax.rollout.requests import Sampling
from codea1_jax.runtime.layout import platform

# The vocabulary is summed in pieces of this many tokens (a TPU's lanes), then the pieces are summed.
_PIECE = 128
_SEARCHED = 64  # pieces that are searched for a threshold before all are
# Bits of floats from 0 to 1, which are below 2^30, order as the floats do. A pass over the vocabulary finds three of a
# threshold's bits: reading the weights takes longer than comparing them with seven numbers.
_PASS_BITS, _PASSES = 3, 10
_LEAST_TOP_P = 1e-9  # the likeliest token of any vocabulary reaches it; one that rounds to 0, no token at all does


class SamplingKind(StrEnum):
    GREEDY = "greedy"
    PLAIN = "plain"
    FILTERED = "filtered"

    @classmethod
    def of(cls, sampling: Sampling) -> "SamplingKind":
        if sampling.greedy:
            return cls.GREEDY
        return cls.FILTERED if sampling.top_k or sampling.top_p < 1 else cls.PLAIN


class Controls(NamedTuple):
    """The numbers of a `Sampling`, traced: changing them compiles nothing. Scalars, or one number for each row.

    Rows that differ are all drawn by `SamplingKind.FILTERED`, where top_k = 1 is greedy.
    """

    temperature: Float[Array, "*rows"]
    top_p: Float[Array, "*rows"]
    top_k: Int[Array, "*rows"]
    max_new_tokens: Int[Array, "*rows"]

    @classmethod
    def of(cls, sampling: Sampling) -> "Controls":
        numbers: Any = (
            np.float32(1.0 if sampling.greedy else sampling.temperature),
            np.float32(max(sampling.top_p, _LEAST_TOP_P)),
            np.int32(1 if sampling.greedy else sampling.top_k),
            np.int32(sampling.max_new_tokens),
        )
        return cls(*numbers)


def row_uniforms(keys: UInt32[Array, "*rows 2"], positions: Int[Array, "*rows"]) -> Float[Array, "*rows"]:
    """One number in [0, 1) per row: a function of the row's key and the token's place in the completion."""

    def one(key: Array, position: Array) -> Array:
        return jax.random.uniform(jax.random.fold_in(jax.random.wrap_key_data(key), position))

    flat = jax.vmap(one)(keys.reshape(-1, 2), positions.reshape(-1))
    return flat.reshape(positions.shape)


def draw_tokens(
    logits: Float[Array, "*rows vocab"], uniforms: Float[Array, "*rows"], kind: SamplingKind, controls: Controls
) -> tuple[Int[Array, "*rows"], Float[Array, "*rows"]]:
    """Tokens, and their log-softmax at the sampling temperature over the whole vocabulary (float32)."""
    scaled = logits.astype(jnp.float32) / _per_row(controls.temperature, logits)[..., None]
    top = jnp.max(scaled, axis=-1, keepdims=True)
    weights = jnp.exp(scaled - top)
    if kind is SamplingKind.GREEDY:
        tokens = _argmax(scaled, top)
    else:
        allowed = weights
        if kind is SamplingKind.FILTERED:
            allowed = keep_top_p(keep_top_k(weights, controls.top_k), controls.top_p)
        tokens = invert_cumulative(allowed, uniforms)
        if kind is SamplingKind.FILTERED:  # of tokens that tie, a greedy row takes the first
            tokens = jnp.where(_per_row(controls.top_k == 1, logits), _argmax(scaled, top), tokens)
    chosen = jnp.take_along_axis(scaled, tokens[..., None], axis=-1)
    logprobs = chosen - top - jnp.log(jnp.sum(weights, axis=-1, keepdims=True))
    return tokens.astype(jnp.int32), logprobs[..., 0]


def _argmax(values: Float[Array, "*rows vocab"], top: Float[Array, "*rows 1"]) -> Int[Array, "*rows"]:
    """Where the first of the largest values is, which are `top`: XLA for CPU computes an `argmax` number by number."""
    places = jax.lax.broadcasted_iota(jnp.float32, values.shape, values.ndim - 1)  # exact: they are below 2^24
    return -jnp.max(jnp.where(values == top, -places, 1 - values.shape[-1]), axis=-1).astype(jnp.int32)


def _per_row(control: Array, values: Array) -> Array:
    return jnp.broadcast_to(control, values.shape[:-1])


def keep_top_k(weights: Float[Array, "*rows vocab"], top_k: Int[Array, "*#rows"]) -> Float[Array, "*rows vocab"]:
    """Zeroes all but the k largest weights, which are in [0, 1]; k = 0 keeps all."""
    top_k = _per_row(top_k, weights)
    return _keep_until(weights, jnp.ones_like(weights), top_k.astype(jnp.float32), filtered=top_k > 0)


def keep_top_p(weights: Float[Array, "*rows vocab"], top_p: Float[Array, "*#rows"]) -> Float[Array, "*rows vocab"]:
    """Zeroes all but the largest weights, which are in [0, 1], that together reach top_p of the sum; 1 keeps all."""
    top_p = _per_row(top_p, weights)
    return _keep_until(weights, weights, top_p * jnp.sum(weights, axis=-1), filtered=top_p < 1)


def _keep_until(weights: Array, amounts: Array, goal: Array, *, filtered: Array) -> Array:
    """Keeps the weights at or above the highest threshold for which the kept `amounts` sum to `goal`.

    Other rows than the filtered ones keep all. On a CPU the pieces with the largest weights are searched first: enough
    for rows in which those that exceed all other pieces' weights reach the goal, nearly always, with real models.
    """
    low, left = jnp.zeros(goal.shape, jnp.int32), filtered
    if platform() == "cpu" and weights.shape[-1] > _SEARCHED * _PIECE:
        pieces = _in_pieces(weights)
        largest = jnp.max(pieces, axis=-1)
        numbers = jnp.argsort(largest, axis=-1, descending=True)[..., : _SEARCHED + 1]
        few, of_few = (
            jnp.take_along_axis(x, numbers[..., :-1, None], axis=-2).reshape(*goal.shape, -1)
            for x in (pieces, _in_pieces(amounts))
        )
        rest = jnp.take_along_axis(largest, numbers[..., -1:], axis=-1)
        left = filtered & (jnp.sum(jnp.where(few > rest, of_few, 0), axis=-1) < goal)
        low = _threshold(few, of_few, goal, filtered & ~left)
    low = jnp.where(left, _threshold(weights, amounts, goal, left), low)
    threshold = jax.lax.bitcast_convert_type(low, jnp.float32)
    return jnp.where(weights >= threshold[..., None], weights, 0)


def _threshold(weights: Array, amounts: Array, goal: Array, wanted: Array) -> Array:
    """The bits of the highest threshold for which the amounts of weights at or above it sum to `goal`, else 0.

    If no row's is wanted, the weights are not looked at. That is a loop that ends at once, not a `lax.cond`, whose
    branches XLA does not split: every device would filter the rows of all.
    """
    some = jnp.any(wanted)

    def goes_on(progress: tuple[Array, Array]) -> Array:
        return (progress[0] < _PASSES) & some

    def narrow(progress: tuple[Array, Array]) -> tuple[Array, Array]:
        done, low = progress
        step = 1 << (_PASS_BITS * (_PASSES - 1 - done))
        amounts_kept = [_sum_at_or_above(low + each * step, weights, amounts) for each in range(1, 1 << _PASS_BITS)]
        return done + 1, low + step * sum((enough >= goal).astype(jnp.int32) for enough in amounts_kept)

    _, low = jax.lax.while_loop(goes_on, narrow, (jnp.int32(0), jnp.zeros(goal.shape, jnp.int32)))
    return jnp.where(wanted, low, 0)


def _sum_at_or_above(bits: Array, weights: Array, amounts: Array) -> Array:
    threshold = jax.lax.bitcast_convert_type(bits, jnp.float32)
    return jnp.sum(jnp.where(weights >= threshold[..., None], amounts, 0), axis=-1)


def _in_pieces(values: Float[Array, "*rows vocab"]) -> Float[Array, "*rows pieces piece"]:
    padding = [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % _PIECE)]
    return jnp.pad(values, padding).reshape(*values.shape[:-1], -1, _PIECE)


def invert_cumulative(weights: Float[Array, "*rows vocab"], uniforms: Float[Array, "*rows"]) -> Int[Array, "*rows"]:
    """The index at which the running sum of `weights` passes `uniforms` times the total.

    Never that of a zero weight, whatever the rounding.
    """
    pieces = _in_pieces(weights)
    sums = jnp.sum(pieces, axis=-1)
    running = jnp.cumsum(sums, axis=-1)
    goal = uniforms * running[..., -1]
    piece = _first_beyond(sums, running, goal)[..., None]
    before = jnp.take_along_axis(running - sums, piece, axis=-1)[..., 0]
    inside = jnp.take_along_axis(pieces, piece[..., None], axis=-2)[..., 0, :]
    offset = _first_beyond(inside, jnp.cumsum(inside, axis=-1), goal - before)
    return piece[..., 0] * _PIECE + offset


def _first_beyond(weights: Array, running: Array, goal: Array) -> Array:
    """The first positive weight whose running sum exceeds the goal; the last, if rounding left none."""
    length = weights.shape[-1]
    index = jax.lax.broadcasted_iota(jnp.int32, weights.shape, weights.ndim - 1)
    rank = jnp.where(running > goal[..., None], 2 * length - index, index)
    return jnp.argmax(jnp.where(weights > 0, rank, -1), axis=-1)
