"""The jitted functions that a learner is made of."""

import os
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, UInt32

from codea1_jax.common.chips import CHIPS
from codea1_jax.config import LoRAConfig, OptimizerConfig
from codea1_jax.learn.batch import PackedBatch
from codea1_jax.learn.objectives import Objective, Sums
from codea1_jax.learn.optimizer import (
    Params,
    PolicyState,
    apply_gradient,
    frozen,
    initial_state,
    make_optimizer,
    state_shardings,
)
from codea1_jax.models.attention import choose_kernel, training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Transformer, output_table
from codea1_jax.models.gathers import take_places
from codea1_jax.models.logprobs import token_logprobs
from codea1_jax.models.lora import attach, init_adapters
from codea1_jax.models.sharding import batch_sharding, jit_on, replicated
from codea1_jax.runtime.layout import REPLICA, by_replica, everywhere, replicas

Jitted = Any  # jax.jit's result has no public type

# With these a v5e sums the gradients of activations over `tensor` while it computes those of weights: two of the five
# such sums of a layer are hidden. By `codea1 plan` two chips, whose sums are short, gain nothing, and a v6e's matrix
# products take longer by more than is gained.
_WORTH_HIDING = 4  # chips of the `tensor` axis
_SUMS_WHILE_COMPUTING = ("xla_enable_async_all_reduce", "xla_tpu_enable_async_collective_fusion_fuse_all_reduce")


@dataclass(frozen=True)
class TargetScores:
    """(parameters, batch) -> the log-probability of every target's token and the entropy (nats) of its distribution."""

    model: Transformer
    logit_chunk: int
    temperature: float = 1.0

    def __call__(
        self, params: Params, batch: PackedBatch
    ) -> tuple[Float[Array, "rows targets"], Float[Array, "rows targets"]]:
        model, sight = self.model, Sight(jnp.asarray(batch.segment_ids), jnp.asarray(batch.parents))
        attend = training_attention(sight, choose_kernel(model.attention, model.dtype, model.architecture.head_dim))
        hidden, _ = model.apply({"params": params}, batch.tokens, batch.positions, attend)
        # Only the states that predict a learned token meet the vocabulary.
        states = take_places(hidden, jnp.asarray(batch.target_index))
        table = output_table(params, model.architecture)
        return token_logprobs(states, table, batch.targets, chunk=self.logit_chunk, temperature=self.temperature)


@dataclass(frozen=True)
class Phases:
    """Called with arrays, they compute; lowered from placed shapes, they show what a device would have to do.

    `trained` are parameters or adapters, `base` what adapters are added to, None where there are none.

    state: where everything of a state lies, except for a reference.
    init: (parameters, seed of adapters) -> a new state.
    empty: trained -> what is accumulated over no micro-batch.
    accumulate: (accumulated, trained, batch, normalizer, base) -> accumulated; the first is donated.
    apply: (state, every replica's gradient, rate) -> (state, their sum's norm); the first is donated.
    logprobs: (parameters, batch) -> those of the batch's targets.
    """

    state: PolicyState
    init: Jitted
    empty: Jitted
    accumulate: Jitted
    apply: Jitted
    logprobs: Jitted


class Accumulated(NamedTuple):
    """The gradient of a mini-batch and its objective's sums, over the micro-batches seen so far.

    gradient: of each replica's rows, with a first axis for the replicas of the mesh. An update sums it: so it crosses
    the network between replicas once in a mini-batch, not once in a micro-batch.
    """

    gradient: Params
    sums: Sums


@lru_cache(8)  # policies of one model that learn alike share their programs
def make_phases(
    model: Transformer,
    objective: Objective,
    scores: TargetScores,
    mesh: Mesh,
    lora: LoRAConfig | None,
    optimizer: OptimizerConfig,
) -> Phases:
    updates = make_optimizer(optimizer)
    state = state_shardings(model, lora, updates, mesh)

    def init(params: Params, seed: UInt32[Array, ""]) -> PolicyState:
        trained = params if lora is None else init_adapters(model, lora, jax.random.key(seed))
        first = initial_state(trained, updates)
        return replace(first, reference=frozen(trained, model.dtype)) if objective.own_reference else first

    def logprobs(params: Params, batch: PackedBatch) -> Float[Array, "rows targets"]:
        return scores(params, batch)[0]

    def apply(state: PolicyState, gradient: Params, rate: Float[Array, ""]) -> tuple[PolicyState, Float[Array, ""]]:
        whole = jax.tree.map(lambda x: x.sum(axis=0), gradient)
        return apply_gradient(state, whole, updates, rate)

    options = gradient_options(mesh.devices.flat[0].device_kind, mesh.shape["tensor"])
    by_each = jax.tree.map(lambda sharding: NamedSharding(mesh, P(REPLICA, *sharding.spec)), state.params)
    accumulated = Accumulated(by_each, replicated(mesh))  # one sharding for all of its sums
    own_reference = state.params if objective.own_reference else None
    add = partial(accumulate, scores=scores, objective=objective, lora=lora)
    return Phases(
        state=state,
        init=jit_on(mesh, init, out_shardings=replace(state, reference=own_reference)),
        empty=jit_on(mesh, partial(empty, objective=objective), out_shardings=accumulated),
        accumulate=jit_on(mesh, add, out_shardings=accumulated, donate_argnums=(0,), compiler_options=options),
        apply=jit_on(mesh, apply, out_shardings=(state, replicated(mesh)), donate_argnums=(0,)),
        logprobs=jit_on(mesh, logprobs, out_shardings=batch_sharding(mesh)),
    )


def gradient_options(kind: str, tensor: int) -> dict[str, bool]:
    """What to compile with for a device (`jax.Device.device_kind`) in a mesh with a `tensor` axis of this size.

    What LIBTPU_INIT_ARGS names is left to it, also where libtpu no longer knows an option.
    """
    if tensor < _WORTH_HIDING or kind not in CHIPS["v5e"].kinds:
        return {}
    given = os.environ.get("LIBTPU_INIT_ARGS", "")
    return {option: True for option in _SUMS_WHILE_COMPUTING if option not in given}


def empty(params: Params, *, objective: Objective) -> Accumulated:
    return Accumulated(jax.tree.map(lambda x: jnp.zeros((replicas(), *x.shape), x.dtype), params), objective.zero())


def accumulate(
    accumulated: Accumulated,
    params: Params,
    batch: PackedBatch,
    normalizer: Float[Array, ""],
    base: Params | None = None,
    *,
    scores: TargetScores,
    objective: Objective,
    lora: LoRAConfig | None = None,
) -> Accumulated:
    """Adds one micro-batch; `normalizer` is that of the whole mini-batch.

    `params` are what is trained; with `lora`, adapters on `base`.
    """

    def loss(params: Params, batch: PackedBatch, normalizer: Array, base: Params | None) -> tuple[Array, Sums]:
        logprobs, entropy = scores(attach(lora, base, params), batch)
        return objective.loss(logprobs, entropy, batch, normalizer)

    def gradient_of(batch: PackedBatch, params: Params, *rest: Any) -> tuple[Params, Sums]:
        return jax.grad(loss, has_aux=True)(params, batch, *rest)

    gradient, sums = by_replica(gradient_of, batch, params, normalizer, base)
    sums = jax.tree.map(everywhere, sums)  # a few numbers
    merged: Any = accumulated.sums
    for replica in range(replicas()):
        of_replica: Any = jax.tree.map(itemgetter(replica), sums)
        merged = objective.merged(merged, of_replica)
    return Accumulated(jax.tree.map(jnp.add, accumulated.gradient, gradient), merged)
