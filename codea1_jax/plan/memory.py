"""What must lie on a device at the least, whatever the compiler makes of the rest: known in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping

from codea1_jax.config import Config
from codea1_jax.methods import METHODS
from codea1_jax.plan.hardware import GIB, Hardware
from codea1_jax.plan.workload import Setup, fullest_batch, learner_config, lessons, talk_capacity, talks
from codea1_jax.run.config import ConfigError

ADAM = 3  # copies of the parameters: themselves, and two moments


def kept_copies(config: Config) -> int:
    """How many arrays like a policy's parameters stay throughout: policies, moments, and the frozen reference."""
    method = METHODS[config.method.name]
    learners = [learner_config(config, policy) for policy in method.policies]
    reference = not method.supervised and any(learner.grpo.kl_coef > 0 for learner in learners)
    return ADAM * len(learners) + reference


def resident(setup: Setup) -> float:
    """Bytes that stay on a device throughout."""
    return kept_copies(setup.config) * setup.kept


def least_memory(setup: Setup) -> Mapping[str, float]:
    """By what is done at the time, the bytes on a device that nothing can spare.

    Sampling adds a copy of the parameters to compute with, and the cache; learning a gradient, what a fully
    recomputing backward pass keeps of every layer, and one chunk of logits.
    """
    found, always = {}, resident(setup)
    for talk in talks(setup.config):
        found[f"decode {talk.role}"] = always + setup.gathered + setup.cache(talk_capacity(setup, talk))
    for policy in lessons(setup.config):
        tokens = fullest_batch(setup, policy).tokens.size / setup.parts
        carried = tokens * setup.model.num_layers * setup.model.hidden_size * setup.itemsize
        chunk = learner_config(setup.config, policy).packing.logit_chunk
        logits = min(chunk, tokens) * setup.model.vocab_size * 4 / setup.tensor
        found[f"gradient {policy}"] = always + setup.kept + carried + logits
    return found


def refuse_what_cannot_fit(setup: Setup, hardware: Hardware) -> None:
    """Raises ConfigError, saying what to change, if any phase needs more than a device has."""
    available = hardware.chip.memory
    for phase, needed in least_memory(setup).items():
        if needed > available:
            raise ConfigError(
                f"does not fit {hardware.name}: {phase} needs at least {needed / GIB:.1f} of {available / GIB:.2f} GiB "
                f"per chip, {resident(setup) / GIB:.1f} of them for what always stays; {cure(setup, phase, available)}"
            )


def cure(setup: Setup, phase: str, available: int) -> str:
    """What to change where a phase does not fit."""
    if resident(setup) + setup.kept > available:
        if setup.shards < setup.parts * setup.tensor:
            return "set mesh.replica=1, so that all chips split the parameters, or take more chips"
        return "take more chips: mesh.fsdp and mesh.tensor split the parameters over all of them"
    kind, policy = phase.split()
    if kind in ("prefill", "insert", "decode"):
        if resident(setup) + setup.gathered > 0.9 * available:
            return "raise mesh.tensor, which splits the copy that is sampled from, or take more chips"
        smaller = "rollout.groups" if kind == "decode" else "rollout.prefill_tokens"
        return f"lower {smaller}, or take more chips"
    if setup.config.model.remat != "full":
        return "set model.remat=full"
    return f"lower {policy}.packing.micro_batch_tokens or logit_chunk, raise mesh.tensor, or take more chips"
