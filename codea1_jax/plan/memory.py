"""The least that a device must hold, whatever the compiler makes of the rest: known in milliseconds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from codea1_jax.common.chips import GIB, Hardware
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config
from codea1_jax.learn.learning import Learning
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.flops import adapter_parameters, parameters
from codea1_jax.plan.planned_run import PlannedRun, planned_run_on
from codea1_jax.plan.workload import Phase, sampling_loads, training_loads

MOMENTS_BYTES = 8  # AdamW's two, in float32, of what is trained


@dataclass(frozen=True)
class StateBytes:
    """Bytes, over all devices, of a run's state.

    policies: what is trained of them, and their own references. shared: the policy at step 0, if a run needs it: LoRA's
    base, or a reference.
    """

    policies: int
    moments: int
    shared: int


def state_bytes(config: Config, shapes: Mapping[str, Architecture]) -> StateBytes:
    """What stays on the devices throughout, by arithmetic. shapes: of every policy's model, by the policy's name."""
    learning = Learning(config)
    policies, moments, shared = 0, 0, {}
    for name in learning.sections:
        model, shape, lora = config.models[name], shapes[name], config.lora
        frozen = parameters(shape) * jnp.dtype(model.compute_dtype).itemsize
        trained = parameters(shape) if lora is None else adapter_parameters(shape, lora)
        policies += 4 * trained
        moments += trained * MOMENTS_BYTES
        if learning.has_own_reference(name):
            policies += frozen
        if learning.keeps_initial_weights(name):
            shared[model.model_dump_json()] = frozen  # once for policies of one model
    return StateBytes(policies, moments, sum(shared.values()))


def saved(config: Config, shapes: Mapping[str, Architecture]) -> int:
    """Bytes of a checkpoint, except for the mistake book. LoRA's base is loaded again from where it came."""
    state = state_bytes(config, shapes)
    return state.policies + state.moments + (state.shared if config.lora is None else 0)


def resident(run: PlannedRun) -> float:
    state = state_bytes(run.config, run.shapes)
    moments = 0 if run.config.offload.optimizer else state.moments
    return (state.policies + moments + state.shared) / run.shards


def least_memory(run: PlannedRun, *, cache: bool = True) -> Mapping[Phase, float]:
    """The bytes on a device that nothing can spare, by what is done at the time.

    Sampling adds a copy of the parameters to compute with, and the cache; learning a gradient, what a fully
    recomputing backward pass keeps of every layer, and one chunk of logits; an update, the gradient and moments that
    wait elsewhere. cache: whether to count the cache, which is smaller where prompts turn out to be shorter.
    """
    least: dict[Phase, float] = {}
    always = resident(run)
    for load in sampling_loads(run.config):
        sampled = run.for_policy(load.policy)
        pages = sampled.cache(run.capacity(load)) if cache else 0
        least[Phase("decode", load.role)] = always + sampled.compute_param_bytes + pages
    for policy, learner in ((policy, run.config.learners[policy]) for policy in training_loads(run.config)):
        own = run.for_policy(policy)
        tokens = math.prod(run.micro_batch(policy)) / run.batch_shards
        carried = tokens * own.model.num_layers * own.model.hidden_size * own.itemsize
        logits = min(learner.packing.logit_chunk, tokens) * own.model.vocab_size * 4 / run.tensor
        least[Phase("gradient", policy)] = always + own.master_bytes + carried + logits
        if run.config.offload.optimizer:
            least[Phase("update", policy)] = always + own.master_bytes + MOMENTS_BYTES * own.trained / run.shards
    return least


def refuse_what_cannot_fit(run: PlannedRun, hardware: Hardware) -> None:
    """Raises UserError, saying what to change, if any phase needs more than a device has."""
    check_fits(run, least_memory(run), hardware.chip.memory, hardware.name)


def check_fits(run: PlannedRun, phases: Mapping[Phase, float], available: int, where: str) -> None:
    """Raises UserError, saying what to change, if a phase needs more than `available` bytes of a device.

    phases: the bytes that each needs at least. where: the devices, in words.
    """
    for phase, needed in phases.items():
        if needed > available:
            raise UserError(
                f"does not fit {where}: {phase} needs at least {needed / GIB:.1f} of {available / GIB:.2f} GiB "
                f"per chip, {resident(run) / GIB:.1f} of them for what always stays; "
                f"{suggested_fix(run, phase, available)}"
            )


def check_fits_here(config: Config) -> str:
    """What a run needs and the devices of this process have, in words; CPUs do not report what they have.

    Raises UserError if a phase needs more than one of them has.
    """
    stats = [device.memory_stats() for device in jax.local_devices()]
    limits = [each["bytes_limit"] for each in stats if each]
    if not limits:
        return "not reported by these devices"
    devices, available = jax.devices(), min(limits)
    run = planned_run_on(config, devices[0].platform, len(devices))
    phases = least_memory(run, cache=False)
    check_fits(run, phases, available, f"{len(devices)} x {devices[0].device_kind}")
    fullest = max(phases, key=phases.__getitem__)
    return f"{fullest} needs at least {phases[fullest] / GIB:.1f} of {available / GIB:.2f} GiB per chip"


def suggested_fix(run: PlannedRun, phase: Phase, available: int) -> str:
    run = run.for_phase(phase)
    if resident(run) + run.master_bytes > available:
        if run.shards < run.batch_shards * run.tensor:
            return "set mesh.replica=1, so that all chips split the parameters, or take more chips"
        return "take more chips: mesh.fsdp and mesh.tensor split the parameters over all of them"
    if phase.is_sampling:
        if phase.kind == "weights" or resident(run) + run.compute_param_bytes > 0.9 * available:
            return "raise mesh.tensor, which splits the copy that is sampled from, or take more chips"
        smaller = "rollout.cache_tokens" if phase.kind in ("decode", "evaluate") else "rollout.prefill_tokens"
        return f"lower {smaller}, or take more chips"
    if phase.kind in ("clear", "update"):
        return "take more chips, or train adapters (lora)"
    return (
        "set model.remat=full"
        if run.settings.remat != "full"
        else (f"lower {phase.owner}.packing.micro_batch_tokens or logit_chunk, raise mesh.tensor, or take more chips")
    )
