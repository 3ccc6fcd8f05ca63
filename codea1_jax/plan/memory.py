"""What must lie on a device at the least, whatever the compiler makes of the rest: known in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp

from codea1_jax.assemble.policies import learner_settings, shares_reference
from codea1_jax.config import Config
from codea1_jax.methods import METHODS
from codea1_jax.models.config import Qwen2Config
from codea1_jax.plan.arithmetic import adapter_parameters, parameters
from codea1_jax.plan.hardware import GIB, Hardware
from codea1_jax.plan.workload import Setup, fullest_batch, learner_config, lessons, talk_capacity, talks
from codea1_jax.run.config import ConfigError


@dataclass(frozen=True)
class Kept:
    """Bytes, over all devices, of what a run keeps from step to step.

    policies: what is trained of them. references: of single policies, refreshed now and then. shared: the policy at
    step 0, if it is kept: LoRA's base, or a reference.
    """

    policies: int
    moments: int
    references: int
    shared: int


def kept(config: Config, model: Qwen2Config) -> Kept:
    """By arithmetic."""
    method, lora = METHODS[config.method.name], config.lora
    frozen = parameters(model) * jnp.dtype(config.model.compute_dtype).itemsize
    trained = parameters(model) if lora is None else adapter_parameters(model, lora)
    learners = learner_settings(config, method).values()
    refreshed = sum(learner.grpo.reference_every > 0 for learner in learners if not method.supervised)
    return Kept(
        policies=4 * trained * len(learners),
        moments=sum(trained * (4 + jnp.dtype(each.optimizer.first_moment_dtype).itemsize) for each in learners),
        references=refreshed * (frozen if lora is None else 4 * trained),
        shared=frozen if shares_reference(config, method) else 0,
    )


def saved(config: Config, model: Qwen2Config) -> int:
    """Bytes of a checkpoint, but for the mistake book. LoRA's base is found again where it came from."""
    all_ = kept(config, model)
    return all_.policies + all_.moments + all_.references + (all_.shared if config.lora is None else 0)


def resident(setup: Setup) -> float:
    """Bytes that stay on a device throughout."""
    offload, all_ = setup.config.offload, kept(setup.config, setup.model)
    moments = 0 if offload.optimizer else all_.moments
    references = 0 if offload.reference else all_.references + all_.shared
    return (all_.policies + moments + references) / setup.shards


def least_memory(setup: Setup) -> Mapping[str, float]:
    """By what is done at the time, the bytes on a device that nothing can spare.

    Sampling adds a copy of the parameters to compute with, and the cache; learning a gradient, what a fully
    recomputing backward pass keeps of every layer, and one chunk of logits; an update, the gradient and moments that
    wait elsewhere.
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
        if setup.config.offload.optimizer:
            moments = 4 + jnp.dtype(learner_config(setup.config, policy).optimizer.first_moment_dtype).itemsize
            found[f"update {policy}"] = always + setup.kept + moments * setup.trained / setup.shards
    return found


def refuse_what_cannot_fit(setup: Setup, hardware: Hardware) -> None:
    """Raises ConfigError, saying what to change, if any phase needs more than a device has."""
    available = hardware.chip.memory
    for phase, needed in least_memory(setup).items():
        if needed > available:
            raise ConfigError(
                f"does not fit {hardware.name}: {phase} needs at least {needed / GIB:.1f} of {available / GIB:.2f} GiB "
                f"per chip, {resident(setup) / GIB:.1f} of them for what always stays; {fix(setup, phase, available)}"
            )


def fix(setup: Setup, phase: str, available: int) -> str:
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
