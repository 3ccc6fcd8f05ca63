"""What the flash kernels compute of one tile: some queries, some keys and values, and who sees whom.

Scores have the keys on one of their two axes (`keys_axis`). With the keys last a GPU transposes no factor of a
query's sums. With the keys first a TPU finds the highest score of a query, and their sum, in fewer steps; what belongs
to queries then stands in lines, and what is gathered of them is transposed.

Everything is computed in float32 except for the products, whose factors have the inputs' type. Queries are already
scaled. The formulas are those of FlashAttention-2 (arXiv 2307.08691, algorithms 1 and 2).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from codea1_jax.models.attention.sight import MASKED

PerQuery = Float[Array, "query 1"] | Float[Array, "1 query"]
"""A number for each query, by the axis of the keys: the last, or the first."""

Gathered = Float[Array, "query head_dim"] | Float[Array, "head_dim query"]
"""A vector for each query, in the same way."""

Mask = Bool[Array, "query key"] | Bool[Array, "key query"] | None
"""Who is seen by whom, in the same way; None: everybody by everybody."""


class Running(NamedTuple):
    """A softmax over the keys so far: the highest score, and relative to it the sums of weights and weighted values."""

    running_max: PerQuery
    denominator: PerQuery
    accumulator: Gathered

    @classmethod
    def over_nothing(cls, queries: int, head_dim: int, *, keys_axis: int) -> "Running":
        one, vectors = ((queries, 1), (queries, head_dim)) if keys_axis == 1 else ((1, queries), (head_dim, queries))
        return cls(jnp.full(one, MASKED, jnp.float32), jnp.zeros(one, jnp.float32), jnp.zeros(vectors, jnp.float32))

    def over(
        self,
        q: Float[Array, "query head_dim"],
        k: Float[Array, "key head_dim"],
        v: Float[Array, "key head_dim"],
        mask: Mask,
        *,
        keys_axis: int,
    ) -> "Running":
        """Over the keys of one more tile. What a query gathers before the first key it sees fades to nothing then."""
        scores = _scores(q, k, mask, keys_axis)
        highest = jnp.maximum(self.running_max, jnp.max(scores, axis=keys_axis, keepdims=True))
        weights, rescale = jnp.exp(scores - highest), jnp.exp(self.running_max - highest)
        denominator = rescale * self.denominator + jnp.sum(weights, axis=keys_axis, keepdims=True)
        rounded = weights.astype(v.dtype)
        added = product(rounded, v, 1, 0) if keys_axis == 1 else product(v, rounded, 0, 0)
        return Running(highest, denominator, rescale * self.accumulator + added)

    def mixed(self) -> Gathered:
        return self.accumulator / self.denominator

    def logsumexp(self) -> PerQuery:
        return self.running_max + jnp.log(self.denominator)


def queries_gradient(
    q: Float[Array, "query head_dim"],
    k: Float[Array, "key head_dim"],
    v: Float[Array, "key head_dim"],
    d_out: Float[Array, "query head_dim"],
    logsumexp: PerQuery,
    delta: PerQuery,
    mask: Mask,
    *,
    keys_axis: int,
) -> Gathered:
    """A tile's part of the queries' gradient. d_out: the mixed values' gradient; delta: its product with them."""
    _, d_scores = _scores_gradient(q, k, v, d_out, logsumexp, delta, mask, keys_axis)
    rounded = d_scores.astype(k.dtype)
    return product(rounded, k, 1, 0) if keys_axis == 1 else product(k, rounded, 0, 0)


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
    weights, d_scores = _scores_gradient(q, k, v, d_out, logsumexp, delta, mask, keys_axis=0)
    return product(d_scores.astype(q.dtype), q, 1, 0), product(weights.astype(d_out.dtype), d_out, 1, 0)


def _scores_gradient(
    q: Array, k: Array, v: Array, d_out: Array, logsumexp: Array, delta: Array, mask: Array | None, keys_axis: int
) -> tuple[Array, Array]:
    weights = jnp.exp(_scores(q, k, mask, keys_axis) - logsumexp)
    return weights, weights * (_by_pair(d_out, v, keys_axis) - delta)


def _scores(q: Array, k: Array, mask: Array | None, keys_axis: int) -> Array:
    scores = _by_pair(q, k, keys_axis)
    return scores if mask is None else jnp.where(mask, scores, MASKED)


def _by_pair(of_queries: Array, of_keys: Array, keys_axis: int) -> Array:
    return product(of_queries, of_keys, 1, 1) if keys_axis == 1 else product(of_keys, of_queries, 1, 1)


def product(a: Array, b: Array, a_axis: int, b_axis: int) -> Array:
    return jax.lax.dot_general(a, b, (((a_axis,), (b_axis,)), ((), ())), preferred_element_type=jnp.float32)
