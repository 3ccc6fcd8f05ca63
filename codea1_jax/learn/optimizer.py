"""What an update carries from step to step, and how a gradient changes it."""

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from codea1_jax.config import LoRAConfig, OffloadConfig, OptimizerConfig
from codea1_jax.models.decoder import Transformer
from codea1_jax.models.lora import trained_shapes, trained_shardings
from codea1_jax.models.sharding import replicated
from codea1_jax.runtime.layout import in_host_memory

Params = Any  # a nested dict of arrays
WARMUP_SHARE = 0.1  # of a run's steps, at most


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PolicyState:
    """A policy in training. `step` counts training steps, which may hold several optimizer updates.

    `params` are what is trained: all parameters, or adapters (`models.lora`).
    `reference` is the policy's own, of an earlier step; None: it has none, or the one that all policies share.
    """

    params: Params
    opt_state: Any
    step: Any
    reference: Params | None = None


def make_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """AdamW (arXiv 1711.05101) after clipping the global norm, for a learning rate of 1."""
    return optax.chain(
        optax.clip_by_global_norm(config.clip_norm),
        optax.scale_by_adam(),
        optax.add_decayed_weights(config.weight_decay),
        optax.scale(-1.0),
    )


def learning_rate(step: int, config: OptimizerConfig, total_steps: int) -> float:
    """The rate of training step `step` (from 0) of `total_steps`.

    It rises linearly and reaches the peak in the last warm-up step; the cosine would reach 0 one step after
    the last. So no step is spent at a rate of 0, unless `warmup_from_zero` has the rise begin there.
    """
    warmup = min(config.warmup_steps, math.ceil(WARMUP_SHARE * total_steps))
    begun = 0 if config.warmup_from_zero and warmup else 1
    rising = (step + begun) / max(warmup, 1)
    if config.schedule == "constant":
        return config.learning_rate * min(rising, 1.0)
    if step < warmup:
        return config.learning_rate * rising
    progress = min((step - warmup) / max(total_steps - warmup, 1), 1.0)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


def state_shardings(
    model: Transformer, lora: LoRAConfig | None, optimizer: optax.GradientTransformation, mesh: Mesh
) -> PolicyState:
    """Moments lie where their parameters do, all else everywhere."""
    params, moments = trained_shardings(model, lora, mesh), jax.eval_shape(optimizer.init, trained_shapes(model, lora))
    everywhere = replicated(mesh)
    moments = optax.tree.map_params(
        optimizer, lambda _, own: own, moments, params, transform_non_params=lambda _: everywhere
    )
    return PolicyState(params, moments, everywhere)


def initial_state(params: Params, optimizer: optax.GradientTransformation) -> PolicyState:
    """A separate state: the arrays are copied, because updates donate (overwrite) them."""
    params = jax.tree.map(jnp.copy, params)
    return PolicyState(params, optimizer.init(params), jnp.zeros((), jnp.int32))


def at_rest(state: PolicyState, offload: OffloadConfig) -> PolicyState:
    return replace(state, opt_state=in_host_memory(state.opt_state)) if offload.optimizer else state


def frozen(params: Params, dtype: DTypeLike) -> Params:
    """A copy that no update overwrites, of this type: in the type that is computed with nothing is lost."""
    return jax.tree.map(lambda x: jnp.array(x, dtype), params)


def apply_gradient(
    state: PolicyState, gradient: Params, optimizer: optax.GradientTransformation, rate: Float[Array, ""]
) -> tuple[PolicyState, Float[Array, ""]]:
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to its step count
        updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
    params = jax.tree.map(lambda p, u: p + rate * u, state.params, updates)
    return PolicyState(params, opt_state, state.step), optax.tree.norm(gradient)
