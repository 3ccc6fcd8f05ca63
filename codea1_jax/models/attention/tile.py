"""What the flash kernels compute of one tile: some queries, some keys and values, and who sees whom.

Everything is computed in float32 except for the products, whose factors have the inputs' type. Queries are already
scaled. The formulas are those of FlashAttention-2 (arXiv 2307.08691, algorithms 1 and 2).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from codea1_jax.models.attention.sight import MASKED


class Running(NamedTuple):
    """A softmax over the keys so far: the highest score, and relative to it the sums of weights and weighted values."""

    running_max: Float[Array, "query 1"]
    denominator: Float[Array, "query 1"]
    accumulator: Float[Array, "query head_dim"]

    @classmethod
    def over_nothing(cls, queries: int, head_dim: int) -> Running:
        """Before the first key."""
        running_max, denominator = jnp.full((queries, 1), MASKED, jnp.float32), jnp.zeros((queries, 1), jnp.float32)
        return cls(running_max, denominator, jnp.zeros((queries, head_dim), jnp.float32))

    def over(
        self,
        q: Float[Array, "query head_dim"],
        k: Float[Array, "key head_dim"],
        v: Float[Array, "key head_dim"],
        mask: Bool[Array, "query key"],
    ) -> Running:
        """Over the keys of one more tile. What a query gathers before the first key it sees fades to nothing then."""
        scores = _masked(product(q, k, 1, 1), mask)
        weights, rescale, running_max, denominator = _weighed(scores, self.running_max, self.denominator, axis=1)
        return Running(running_max, denominator, rescale * self.accumulator + product(weights.astype(v.dtype), v, 1, 0))

    def mixed(self) -> Float[Array, "query head_dim"]:
        """The mixed values."""
        return self.accumulator / self.denominator

    def logsumexp(self) -> Float[Array, "query 1"]:
        """The log-sum-exp of the scores."""
        return self.running_max + jnp.log(self.denominator)


class RunningByKeys(NamedTuple):
    """As `Running`, of scores with the keys first: a TPU finds the highest, and the sum, of a column in fewer steps."""

    running_max: Float[Array, "1 query"]
    denominator: Float[Array, "1 query"]
    accumulator: Float[Array, "head_dim query"]

    @classmethod
    def over_nothing(cls, queries: int, head_dim: int) -> RunningByKeys:
        """Before the first key."""
        return cls(*(x.T for x in Running.over_nothing(queries, head_dim)))

    def over(
        self,
        q: Float[Array, "query head_dim"],
        k: Float[Array, "key head_dim"],
        v: Float[Array, "key head_dim"],
        mask: Bool[Array, "key query"] | None,
    ) -> RunningByKeys:
        """Over the keys of one more tile, all of them without a mask."""
        scores = _masked(product(k, q, 1, 1), mask)
        weights, rescale, running_max, denominator = _weighed(scores, self.running_max, self.denominator, axis=0)
        mixed = product(v, weights.astype(v.dtype), 0, 0)
        return RunningByKeys(running_max, denominator, rescale * self.accumulator + mixed)

    def mixed(self) -> Float[Array, "query head_dim"]:
        """The mixed values."""
        return (self.accumulator / self.denominator).T

    def logsumexp(self) -> Float[Array, "1 query"]:
        """The log-sum-exp of the scores."""
        return self.running_max + jnp.log(self.denominator)


def _weighed(scores: Array, running_max: Array, denominator: Array, axis: int) -> tuple[Array, Array, Array, Array]:
    """The weights of one more tile's scores, whose keys lie on `axis`, what earlier sums fade by, and the new sums."""
    highest = jnp.maximum(running_max, jnp.max(scores, axis=axis, keepdims=True))
    weights, rescale = jnp.exp(scores - highest), jnp.exp(running_max - highest)
    return weights, rescale, highest, rescale * denominator + jnp.sum(weights, axis=axis, keepdims=True)


def queries_gradient(
    q: Float[Array, "query head_dim"],
    k: Float[Array, "key head_dim"],
    v: Float[Array, "key head_dim"],
    d_out: Float[Array, "query head_dim"],
    logsumexp: Float[Array, "query 1"],
    delta: Float[Array, "query 1"],
    mask: Bool[Array, "query key"],
) -> Float[Array, "query head_dim"]:
    """A tile's part of the queries' gradient. d_out: the mixed values' gradient; delta: its product with them."""
    weights = jnp.exp(_masked(product(q, k, 1, 1), mask) - logsumexp)
    d_scores = weights * (product(d_out, v, 1, 1) - delta)
    return product(d_scores.astype(k.dtype), k, 1, 0)


def queries_gradient_by_keys(
    q: Float[Array, "query head_dim"],
    k: Float[Array, "key head_dim"],
    v: Float[Array, "key head_dim"],
    d_out: Float[Array, "query head_dim"],
    logsumexp: Float[Array, "1 query"],
    delta: Float[Array, "1 query"],
    mask: Bool[Array, "key query"] | None,
) -> Float[Array, "head_dim query"]:
    """As `queries_gradient`, of scores with the keys first."""
    _, d_scores = _scores_gradient_by_keys(q, k, v, d_out, logsumexp, delta, mask)
    return product(k, d_scores.astype(k.dtype), 0, 0)


def keys_and_values_gradient(
    q: Float[Array, "query head_dim"],
    k: Float[Array, "key head_dim"],
    v: Float[Array, "key head_dim"],
    d_out: Float[Array, "query head_dim"],
    logsumexp: Float[Array, "1 query"],
    delta: Float[Array, "1 query"],
    mask: Bool[Array, "key query"] | None,
) -> tuple[Float[Array, "key head_dim"], Float[Array, "key head_dim"]]:
    """A tile's part of the keys' and the values' gradients. Scores have the keys first, so no product is transposed."""
    weights, d_scores = _scores_gradient_by_keys(q, k, v, d_out, logsumexp, delta, mask)
    return product(d_scores.astype(q.dtype), q, 1, 0), product(weights.astype(d_out.dtype), d_out, 1, 0)


def _scores_gradient_by_keys(
    q: Array, k: Array, v: Array, d_out: Array, logsumexp: Array, delta: Array, mask: Array | None
) -> tuple[Float[Array, "key query"], Float[Array, "key query"]]:
    """The weights of a tile, and the gradient of its scores."""
    weights = jnp.exp(_masked(product(k, q, 1, 1), mask) - logsumexp)
    return weights, weights * (product(v, d_out, 1, 1) - delta)


def _masked(scores: Array, mask: Array | None) -> Array:
    return scores if mask is None else jnp.where(mask, scores, MASKED)


def product(a: Array, b: Array, a_axis: int, b_axis: int) -> Array:
    """The sum over an axis of each matrix, in float32."""
    return jax.lax.dot_general(a, b, (((a_axis,), (b_axis,)), ((), ())), preferred_element_type=jnp.float32)
