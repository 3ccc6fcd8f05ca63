"""The state that training begins with: the first one, or that of a run's last checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from codea1_jax.checkpoint.fingerprint import digest
from codea1_jax.devices.offload import in_host_memory
from codea1_jax.learn import frozen
from codea1_jax.models.decoder import Params
from codea1_jax.models.sharding import abstract_sharded
from codea1_jax.run.rundir import RunDir
from codea1_jax.training.convert import Source, own_start
from codea1_jax.training.parts import Training
from codea1_jax.training.state import State, pack_state, unpack_state


def start(training: Training) -> State:
    """The state before the first step: every policy from the same weights, which are also the frozen reference.

    A policy that starts elsewhere has its own reference.
    """
    policies = training.policies
    policy, mesh, learning = policies.policy, policies.mesh, policies.learning
    sources = own_starts(training)
    needed = learning.keeps_initial_weights or None in sources.values()  # a warm start for nobody takes minutes
    params = policies.weights.params(policy, mesh) if needed else None
    states = {
        name: learner.init(params if (source := sources[name]) is None else source.read(policy.model, mesh))
        for name, learner in policies.learners.items()
    }
    if learning.lora is not None:
        return replace(_first_state(training, states, None), base=params, base_digest=digest(params))
    return _first_state(training, states, frozen(params, policy.model.dtype) if learning.shares_reference else None)


def own_starts(training: Training) -> dict[str, Source | None]:
    """What each policy starts from, where that is not what all start from. Raises UserError if it cannot be used."""
    policies = training.policies
    return {
        name: own_start(policies.learning.sections[name].start, name, policies.policy) for name in policies.learners
    }


def resume(training: Training, run: RunDir) -> State:
    """The state of the run's last checkpoint, on this run's mesh.

    Raises CheckpointError if it cannot be read, UserError if LoRA's base is another than the run began with.
    """
    policies, lora = training.policies, training.policies.learning.lora
    model, mesh = policies.policy.model, policies.mesh
    states = {name: learner.abstract(abstract_sharded(model, mesh)) for name, learner in policies.learners.items()}
    keeps_reference = policies.learning.shares_reference
    reference = abstract_sharded(model.clone(param_dtype=model.dtype), mesh) if keeps_reference else None
    like, _ = pack_state(_first_state(training, states, reference))
    state = unpack_state(*run.restore(like))
    if lora is None:
        return state
    return replace(state, base=policies.weights.lora_base(policies.policy, mesh, state.base_digest))


def _first_state(training: Training, policies: Mapping[str, Any], reference: Params | None) -> State:
    if training.policies.learning.offload.reference:
        reference = in_host_memory(reference)
    return State(step=0, policies=policies, reference=reference, book={}, data=training.loader().get_state())
