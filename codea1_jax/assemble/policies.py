"""The policy both roles share, what its parameters start from, and how it learns."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from codea1_jax.config import Config, LearnerConfig
from codea1_jax.game.prompts import Prompts, chat_prompts, plain_prompts
from codea1_jax.game.warm_start import warm_start
from codea1_jax.learn import Imitation, Learner, SupervisedLearner, frozen
from codea1_jax.methods import Method
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.policy import Policy, pretrained_policy, save_policy
from codea1_jax.models.qwen2 import Params, Qwen2
from codea1_jax.models.sharding import init_sharded, param_shardings
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.models.weights import load_params, resolve
from codea1_jax.run import fingerprint
from codea1_jax.run.config import ConfigError
from codea1_jax.run.hosts import any_host, is_writer
from data_pipeline import micro

logger = logging.getLogger(__name__)

NEVER = 2**31 - 1  # more steps than any run has


def make_policy(config: Config) -> Policy:
    """The architecture and tokenizer that both roles share."""
    dtype = jnp.dtype(config.model.compute_dtype)
    if config.model.pretrained is not None:
        directory, attention = resolve(config.model.pretrained), config.model.attention
        return pretrained_policy(directory, dtype=dtype, remat=config.model.remat, attention=attention)
    assert config.model.architecture is not None  # the configuration has exactly one source
    tokenizer = micro_tokenizer(micro.WORDS)
    try:
        shape = Qwen2Config(vocab_size=tokenizer.vocab_size, **config.model.architecture.model_dump())
    except ValueError as error:
        raise ConfigError(f"model.architecture: {error}") from error
    return Policy(Qwen2(shape, dtype, jnp.dtype("float32"), config.model.remat, config.model.attention), tokenizer)


def initial_params(config: Config, policy: Policy, mesh: Mesh) -> Params:
    """What both policies start from: pretrained weights, a warm start (cached by what made it), or random weights.

    Under LoRA no update changes them: they are in the type that is computed with.
    """
    shardings = param_shardings(policy.model, mesh)
    if config.model.pretrained is not None:
        model = policy.model if config.lora is None else policy.model.clone(param_dtype=policy.model.dtype)
        return load_params(resolve(config.model.pretrained), model, shardings)
    params = _trained_from_scratch(config, policy, mesh, shardings)
    return params if config.lora is None else frozen(params, policy.model.dtype)


def _trained_from_scratch(config: Config, policy: Policy, mesh: Mesh, shardings: Params) -> Params:
    if config.warm_start is None:
        return init_sharded(policy.model, jax.random.key(config.run.seed), mesh)
    made_by = {
        "warm_start": config.warm_start.model_dump(mode="json"),
        "model": config.model.model_dump(mode="json"),
        "vocabulary": micro.WORDS,
        "corpus": [vars(transcript) for transcript in micro.warm_start(100, config.run.seed)],
        "seed": config.run.seed,
    }
    digest = hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:16]
    cached = Path(config.warm_start_cache) / digest
    if not any_host(not cached.exists()):
        logger.info("warm start: found in %s", cached)
        return load_params(cached, policy.model, shardings)
    params = warm_start(policy, config.warm_start, config.run.seed, mesh)
    unfinished = cached.with_name(f"{digest}.{os.getpid()}.tmp")
    save_policy(unfinished, policy, params)
    if is_writer():
        _finish(unfinished, cached)
    return params


def base_params(config: Config, policy: Policy, mesh: Mesh, digest: str | None) -> Params:
    """LoRA's base, found again. Raises ConfigError if it is not the one of this digest, that the run began with."""
    params = initial_params(config, policy, mesh)
    if fingerprint.digest(params) != digest:
        source = config.model.pretrained or f"the warm start in {config.warm_start_cache}"
        raise ConfigError(f"lora: {source} is not what this run's adapters were trained on; put the same weights there")
    return params


def _finish(unfinished: Path, cached: Path) -> None:
    try:
        unfinished.rename(cached)
    except OSError:
        if not cached.exists():
            raise
        shutil.rmtree(unfinished)  # another run made the same in the meantime


def make_prompts(config: Config, policy: Policy) -> Prompts:
    """The prompts of both roles in the configured style."""
    if config.prompts == "plain":
        return plain_prompts(policy.tokenizer)
    return chat_prompts(policy.tokenizer, config.rewards.suite_size, answers=config.method.answer_prediction)


def make_learners(
    config: Config, method: Method, model: Qwen2, total_steps: int, mesh: Mesh
) -> dict[str, Learner | Imitation]:
    """Every trained policy's learner, by its name, over the devices of a mesh (of a TPU that is not here, say)."""
    make = _imitation if method.supervised else _learner
    settings = learner_settings(config, method)
    # Every policy's adapters are drawn from a seed of their own.
    return {
        name: make(config, each, model, total_steps, mesh, len(settings) * config.run.seed + number)
        for number, (name, each) in enumerate(settings.items())
    }


def learner_settings(config: Config, method: Method) -> dict[str, LearnerConfig]:
    """How every trained policy learns, by its name. One that starts elsewhere keeps a reference of its own."""
    sections = {"code": config.code, "test": config.test}
    return {name: _near_its_start(sections[name]) for name in method.policies}


def _near_its_start(learner: LearnerConfig) -> LearnerConfig:
    if learner.start is None or not learner.grpo.kl_coef or learner.grpo.reference_every:
        return learner
    return learner.model_copy(update={"grpo": learner.grpo.model_copy(update={"reference_every": NEVER})})


def shares_reference(config: Config, method: Method) -> bool:
    """Whether the policy at step 0 is kept: as LoRA's base, or since one that is trained is to stay near it."""
    if config.lora is not None:
        return True
    settings = learner_settings(config, method).values()
    return not method.supervised and any(each.grpo.kl_coef > 0 and not each.grpo.reference_every for each in settings)


def _learner(config: Config, settings: LearnerConfig, model: Qwen2, total_steps: int, mesh: Mesh, seed: int) -> Learner:
    """The learner of one policy."""
    return Learner(
        model,
        settings.grpo,
        settings.optimizer,
        settings.packing,
        total_steps=total_steps,
        temperature=config.rollout.temperature,
        mesh=mesh,
        offload=config.offload,
        lora=config.lora,
        seed=seed,
    )


def _imitation(
    config: Config, settings: LearnerConfig, model: Qwen2, total_steps: int, mesh: Mesh, seed: int
) -> Imitation:
    learner = SupervisedLearner(
        model,
        settings.optimizer,
        settings.packing,
        total_steps=total_steps,
        mesh=mesh,
        offload=config.offload,
        lora=config.lora,
        seed=seed,
    )
    return Imitation(learner)
