"""The log-probabilities of the tokens that a packed batch learns from."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array

from codea1_jax.learn.batch import PackedBatch
from codea1_jax.learn.optimizer import Params
from codea1_jax.models.attention import choose_kernel, training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Transformer, output_table
from codea1_jax.models.gathers import take_places
from codea1_jax.models.logprobs import token_logprobs

Scores = Callable[[Params, PackedBatch], tuple[Array, Array]]
"""(parameters, batch) -> the log-probability of every target's token and the entropy (nats) of its
distribution, both Float[Array, "rows targets"]."""


def target_scores(model: Transformer, *, logit_chunk: int, temperature: float = 1.0) -> Scores:
    """The scores of a model sampled at `temperature`."""

    def scores(params: Params, batch: PackedBatch) -> tuple[Array, Array]:
        sight = Sight(jnp.asarray(batch.segment_ids), jnp.asarray(batch.parents))
        attend = training_attention(sight, choose_kernel(model.attention, model.dtype, model.architecture.head_dim))
        hidden, _ = model.apply({"params": params}, batch.tokens, batch.positions, attend)
        # Only the states that predict a learned token meet the vocabulary.
        states = take_places(hidden, jnp.asarray(batch.target_index))
        table = output_table(params, model.architecture)
        return token_logprobs(states, table, batch.targets, chunk=logit_chunk, temperature=temperature)

    return scores
