from codea1_jax.models.ahead import CompileAhead, Program
from codea1_jax.plan.workload import evaluation_kind, updates_of
from codea1_jax.rollout.sampling import SamplingKind
from codea1_jax.runtime.fingerprint import fingerprints, groups
from codea1_jax.runtime.offload import in_device_memory
from codea1_jax.training.parts import Training
from codea1_jax.training.start import abstract_state
from codea1_jax.training.state import pack_state


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
