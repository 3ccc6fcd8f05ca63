from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from codea1_jax.learn import frozen
from codea1_jax.models.ahead import CompileAhead, Program
from codea1_jax.models.decoder import Params
from codea1_jax.plan.workload import evaluation_kind, updates_of
from codea1_jax.rollout.sampling import SamplingKind
from codea1_jax.run.rundir import RunDir
from codea1_jax.runtime.fingerprint import digest, fingerprints, groups
from codea1_jax.runtime.layout import in_device_memory
from codea1_jax.training.convert import StoredPolicy, own_start
from codea1_jax.training.parts import Training
from codea1_jax.training.state import State, pack_state, unpack_state


def compile_ahead(training: Training) -> set[Program]:
    """Begins to compile the programs of a run, in the order in which it needs them; returns them."""
    policies, config, shapes = training.policies, training.config, training.policies.shapes
    programs: list[Program] = []
    for role, name in training.games.roles.items():
        sampler = training.games.samplers[role]
        kinds = [evaluation_kind(config)] if config.eval.every else []
        if not policies.learning.method.supervised:
            kinds.append(SamplingKind.of(sampler.sampling))
        for kind in kinds:
            programs += sampler.sampler.compile(shapes[name].sampled, kind)
    for name, learner in policies.learners.items():
        of_policy = shapes[name].state, shapes[name].shared
        programs += learner.compile(*of_policy, learner.shapes, updates=updates_of(config, name))
    saved, _ = pack_state(abstract_state(training))
    programs += CompileAhead().start(
        Program("fingerprint", (number,), fingerprints, (), (in_device_memory(group),))
        for number, group in enumerate(groups(saved))
    )
    return set(programs)


def start(training: Training) -> State:
    """The state before the first step: policies of one model from the same weights, also their frozen reference.

    A policy of another model, or that starts elsewhere, has its own reference. UserError: adapters of another base.
    """
    policies = training.policies
    sources, lora, shared = own_starts(training), training.policies.learning.config.lora is not None, policies.reference
    states, bases, digests, reference = {}, {}, {}, None
    for weights in {id(each): each for each in policies.weights.values()}.values():
        names = [name for name, own in policies.weights.items() if own is weights]
        # A warm start takes minutes: none is made that no policy begins with.
        needed = lora or shared in names or any(sources[name] is None for name in names)
        params = weights.params(policies.named[names[0]], policies.mesh) if needed else None
        if lora:
            bases |= dict.fromkeys(names, params)
            digests |= dict.fromkeys(names, digest(params))
        for name in names:
            source, mesh = sources[name], policies.mesh
            own = params if source is None or lora else source.read(policies.named[name].model, mesh)
            states[name] = policies.learners[name].init(own)
            if lora and source is not None and source.adapters is not None:
                states[name] = replace(states[name], params=source.adapters(digests[name], mesh))
        if shared in names:
            reference = frozen(params, policies.named[shared].model.dtype)
    in_order = {name: states[name] for name in policies.learners}
    return replace(_first_state(training, in_order, reference), bases=bases, base_digests=digests)


def own_starts(training: Training) -> dict[str, StoredPolicy | None]:
    """What each policy starts from, where that is not its model. Raises UserError if it cannot be used."""
    policies = training.policies
    return {
        name: own_start(learner.start, name, policies.named[name], policies.learning.config.lora)
        for name, learner in policies.learning.sections.items()
    }


def resume(training: Training, run: RunDir) -> State:
    """The state of the run's last checkpoint, on this run's mesh.

    Raises CheckpointError if it cannot be read, UserError if LoRA's base is another than the run began with.
    """
    policies, mesh = training.policies, training.policies.mesh
    like, _ = pack_state(abstract_state(training))
    state, bases = unpack_state(*run.restore(like)), {}
    for name, expected in state.base_digests.items():
        same = next((other for other in bases if policies.weights[other] is policies.weights[name]), None)
        base = policies.weights[name].lora_base(policies.named[name], mesh, expected) if same is None else bases[same]
        bases[name] = base
    return replace(state, bases=bases)


def abstract_state(training: Training) -> State:
    shapes, shared = training.policies.shapes, training.policies.reference
    states = {name: each.state for name, each in shapes.items()}
    return _first_state(training, states, None if shared is None else shapes[shared].shared)


def _first_state(training: Training, policies: Mapping[str, Any], reference: Params | None) -> State:
    return State(step=0, policies=policies, reference=reference, book={}, data=training.loader().get_state())
