"""Supervised learning on weighted tokens: the warm start of a small model, and the sft baseline.

The loss is the mean of the tokens' cross-entropies, weighted: their weighted sum over the whole batch,
divided by the sum of the weights, whatever the packing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from codea1_jax.learn.batch import Example, PackedBatch
from codea1_jax.learn.config import OptimizerConfig, PackingConfig
from codea1_jax.learn.losses import masked_sum
from codea1_jax.learn.optimizer import (
    Params,
    PolicyState,
    apply_gradient,
    initial_state,
    learning_rate,
    make_optimizer,
)
from codea1_jax.learn.packing import pack
from codea1_jax.learn.scores import Scores, slot_scores
from codea1_jax.models.qwen2 import Qwen2

LossAndGradient = tuple[Float[Array, ""], Params]


def weighted_example(tokens: Sequence[int], weights: Sequence[float]) -> Example:
    """A sequence whose tokens weigh `weights`; those before the first with a weight are context.

    Raises:
        ValueError: lengths differ, or the first token, which nothing predicts, has a weight.
    """
    first = next((index for index, weight in enumerate(weights) if weight), len(tokens))
    return Example(tokens[:first], tokens[first:], weights[first:])


def cross_entropy(
    accumulated: LossAndGradient,
    params: Params,
    batch: PackedBatch,
    total_weight: Float[Array, ""],
    *,
    scores: Scores,
) -> LossAndGradient:
    """Adds one micro-batch's share of the loss and its gradient."""

    def loss(params: Params) -> Array:
        logprobs, _ = scores(params, batch)
        return masked_sum(-batch.weights * logprobs, batch.mask) / total_weight

    return jax.tree.map(jnp.add, accumulated, jax.value_and_grad(loss)(params))


class SupervisedLearner:
    """Trains one policy by cross-entropy; `total_steps` is the length of the run, for the learning rate."""

    def __init__(self, model: Qwen2, optimizer: OptimizerConfig, packing: PackingConfig, *, total_steps: int) -> None:
        self._packing = packing
        self._optimizer = make_optimizer(optimizer)
        scores = slot_scores(model, logit_chunk=packing.logit_chunk)
        self._nothing = jax.jit(lambda params: (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)))
        self._accumulate = jax.jit(partial(cross_entropy, scores=scores), donate_argnums=0)

        def apply(state: PolicyState, gradient: Params) -> tuple[PolicyState, Float[Array, ""]]:
            rate = learning_rate(state.step, optimizer, total_steps)
            state, norm = apply_gradient(state, gradient, self._optimizer, rate)
            return replace(state, step=state.step + 1), norm

        self._apply = jax.jit(apply, donate_argnums=0)

    def init(self, params: Params) -> PolicyState:
        """The state before the first step. `params` stay the caller's: they are copied."""
        return initial_state(params, self._optimizer)

    def update(self, state: PolicyState, examples: Sequence[Example]) -> tuple[PolicyState, dict[str, float]]:
        """One optimizer update; `state` is donated and must not be used again.

        Raises:
            ValueError: no token of the examples has a weight.
            FloatingPointError: the loss or the gradient is not finite; the state is lost.
        """
        total_weight = sum(sum(example.weights) for example in examples)
        if total_weight <= 0:
            raise ValueError("supervised learning needs at least one token of positive weight")
        total = self._nothing(state.params)
        for batch in pack(examples, self._packing):
            total = self._accumulate(total, state.params, batch, np.float32(total_weight))
        state, norm = self._apply(state, total[1])
        metrics = {"loss": float(total[0]), "grad_norm": float(norm)}
        if not np.isfinite(list(metrics.values())).all():
            raise FloatingPointError(f"the update is not finite: {metrics}")
        return state, metrics
