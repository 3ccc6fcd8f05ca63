"""Supervised learning on weighted tokens: the warm start of a small model, and the sft baseline.

The loss is the mean of the tokens' cross-entropies, weighted: their weighted sum over the whole batch,
divided by the sum of the weights, whatever the packing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from codea1_jax.learn.batch import Example, PackedBatch
from codea1_jax.learn.config import OptimizerConfig, PackingConfig
from codea1_jax.learn.losses import masked_sum
from codea1_jax.learn.optimizer import (
    Params,
    PolicyState,
    apply_gradient,
    at_rest,
    initial_state,
    learning_rate,
    make_optimizer,
    state_shardings,
)
from codea1_jax.learn.packing import pack
from codea1_jax.learn.phases import Phases
from codea1_jax.learn.scores import Scores, slot_scores
from codea1_jax.models.lora import LoRAConfig, attach, init_adapters
from codea1_jax.models.qwen2 import Qwen2
from codea1_jax.models.sharding import batch_parts, batch_sharding, jit_on, one_device_mesh, put, replicated
from codea1_jax.run.offload import OffloadConfig, in_device_memory

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
    base: Params | None = None,
    *,
    scores: Scores,
    lora: LoRAConfig | None = None,
) -> LossAndGradient:
    """Adds one micro-batch's share of the loss and its gradient; with `lora`, `params` are adapters on `base`."""

    def loss(params: Params) -> Array:
        logprobs, _ = scores(attach(lora, base, params), batch)
        return masked_sum(-batch.weights * logprobs, batch.mask) / total_weight

    return jax.tree.map(jnp.add, accumulated, jax.value_and_grad(loss)(params))


def _nothing(params: Params) -> LossAndGradient:
    return jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)


class SupervisedLearner:
    """Trains one policy by cross-entropy; `total_steps` is the length of the run, for the learning rate.

    Everything lies on `mesh`, by default the first device alone; between updates what `offload` says waits in host
    memory. With `lora`, adapters are trained, which `seed` draws.
    """

    def __init__(
        self,
        model: Qwen2,
        optimizer: OptimizerConfig,
        packing: PackingConfig,
        *,
        total_steps: int,
        mesh: Mesh | None = None,
        offload: OffloadConfig | None = None,
        lora: LoRAConfig | None = None,
        seed: int = 0,
    ) -> None:
        self._packing, self._offload = packing, offload or OffloadConfig()
        self._optimizer = make_optimizer(optimizer)
        self._mesh = mesh = one_device_mesh() if mesh is None else mesh
        shardings = state_shardings(model, lora, self._optimizer, mesh)
        loss_and_gradient = (replicated(mesh), shardings.params)
        scores = slot_scores(model, logit_chunk=packing.logit_chunk)
        add = partial(cross_entropy, scores=scores, lora=lora)

        def init(params: Params) -> PolicyState:
            trained = params if lora is None else init_adapters(model, lora, jax.random.key(seed))
            return initial_state(trained, self._optimizer)

        def apply(state: PolicyState, gradient: Params) -> tuple[PolicyState, Float[Array, ""]]:
            rate = learning_rate(state.step, optimizer, total_steps)
            state, norm = apply_gradient(state, gradient, self._optimizer, rate)
            return replace(state, step=state.step + 1), norm

        self.phases = Phases(
            init=jit_on(mesh, init, out_shardings=shardings),
            nothing=jit_on(mesh, _nothing, out_shardings=loss_and_gradient),
            accumulate=jit_on(mesh, add, out_shardings=loss_and_gradient, donate_argnums=(0,)),
            apply=jit_on(mesh, apply, out_shardings=(shardings, replicated(mesh)), donate_argnums=(0,)),
        )

    def init(self, params: Params) -> PolicyState:
        """The state before the first step. `params` stay the caller's: they are copied."""
        return at_rest(self.phases.init(params), self._offload)

    def abstract(self, params: Params) -> PolicyState:
        """Of placed shapes, those of the state that `init` makes."""
        return at_rest(self.phases.init.eval_shape(params), self._offload)

    def update(
        self,
        state: PolicyState,
        examples: Sequence[Example],
        base: Params | None = None,
        wait: Callable[[Any], object] = jax.block_until_ready,
    ) -> tuple[PolicyState, dict[str, float]]:
        """One optimizer update, with LoRA of adapters on `base`; `state` is donated and must not be used again.

        `wait` gets the loss of each micro-batch before the next one begins; if it raises, `state` is still whole.

        Raises:
            ValueError: no token of the examples has a weight.
            FloatingPointError: the loss or the gradient is not finite; the state is lost.
        """
        total_weight = sum(sum(example.weights) for example in examples)
        if total_weight <= 0:
            raise ValueError("supervised learning needs at least one token of positive weight")
        total = self.phases.nothing(state.params)
        for batch in pack(examples, self._packing, batch_parts(self._mesh)):
            placed = put(batch, batch_sharding(self._mesh))
            total = self.phases.accumulate(total, state.params, placed, np.float32(total_weight), base)
            wait(total[0])  # whose buffer the next call takes
        state = replace(state, opt_state=in_device_memory(state.opt_state))
        state, norm = self.phases.apply(state, total[1])
        metrics = {"loss": float(total[0]), "grad_norm": float(norm)}
        if not np.isfinite(list(metrics.values())).all():
            raise FloatingPointError(f"the update is not finite: {metrics}")
        return at_rest(state, self._offload), metrics
