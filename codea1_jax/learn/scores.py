"""The log-probabilities of the tokens that a packed batch learns from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array

from codea1_jax.learn.batch import Blocks, PackedBatch
from codea1_jax.learn.optimizer import Params
from codea1_jax.models.attention import Attend, causal_mask, masked_attention, training_attention
from codea1_jax.models.logprobs import token_logprobs
from codea1_jax.models.qwen2 import Qwen2, output_table

Scores = Callable[[Params, PackedBatch], tuple[Array, Array]]
"""(parameters, batch) -> the log-probability of every target's token and the entropy (nats) of its
distribution, both Float[Array, "rows targets"]."""


def target_scores(model: Qwen2, *, logit_chunk: int, temperature: float = 1.0) -> Scores:
    """The scores of a Qwen2 model sampled at `temperature`."""

    def scores(params: Params, batch: PackedBatch) -> tuple[Array, Array]:
        hidden, _ = model.apply({"params": params}, batch.tokens, batch.positions, _attention(batch, model.attention))
        # Only the states that predict a learned token meet the vocabulary.
        states = jnp.take_along_axis(hidden, batch.target_index[..., None], axis=1)
        table = output_table(params, model.config)
        return token_logprobs(states, table, batch.targets, chunk=logit_chunk, temperature=temperature)

    return scores


def _attention(batch: PackedBatch, kernel: str) -> Attend:
    segment_ids = jnp.asarray(batch.segment_ids)
    if batch.blocks is None:
        return training_attention(segment_ids, kernel)
    return shared_prompt_attention(segment_ids, batch.blocks)


def shared_prompt_attention(segment_ids: Array, blocks: Blocks) -> Attend:
    """Every response block looks at the row's prompt and, causally, at itself; never at another block."""
    prompt = segment_ids[:, : blocks.prompt]
    causal = jnp.tril(jnp.ones((blocks.completion, blocks.completion), bool))
    rows = segment_ids.shape[0]
    to_prompt = jnp.broadcast_to((prompt > 0)[:, None, :], (rows, blocks.completion, blocks.prompt))
    to_itself = jnp.broadcast_to(causal, (rows, *causal.shape))
    seen = jnp.concatenate([to_prompt, to_itself], axis=2)
    return Partial(partial(_attend_shared_prompt, blocks), causal_mask(prompt), seen)


def _attend_shared_prompt(
    blocks: Blocks, within_prompt: Array, seen: Array, q: Array, k: Array, v: Array, kept: Any
) -> tuple[Array, Any]:
    rows = q.shape[0]
    samples = (q.shape[1] - blocks.prompt) // blocks.completion

    def split(x: Array) -> tuple[Array, Array]:
        responses = x[:, blocks.prompt :].reshape(rows * samples, blocks.completion, *x.shape[2:])
        return x[:, : blocks.prompt], responses

    (q_prompt, q_own), (k_prompt, k_own), (v_prompt, v_own) = split(q), split(k), split(v)
    keys = jnp.concatenate([jnp.repeat(k_prompt, samples, axis=0), k_own], axis=1)
    values = jnp.concatenate([jnp.repeat(v_prompt, samples, axis=0), v_own], axis=1)
    mixed = masked_attention(q_own, keys, values, jnp.repeat(seen, samples, axis=0))
    prompt = masked_attention(q_prompt, k_prompt, v_prompt, within_prompt)
    return jnp.concatenate([prompt, mixed.reshape(rows, -1, *q.shape[2:])], axis=1), kept
