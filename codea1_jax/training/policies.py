"""What plays a role: a model with its tokenizer, its prompts, and the weights that it starts from."""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from codea1_jax.common.errors import UserError
from codea1_jax.config import METHODS, Config, ModelConfig, Role, Templates, WarmStartConfig
from codea1_jax.game.prompts import Prompts, chat_prompts, plain_prompts
from codea1_jax.learn import frozen
from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.models.families import from_scratch
from codea1_jax.models.policy import Policy, pretrained_policy, save_policy
from codea1_jax.models.sharding import abstract_sharded, init_sharded
from codea1_jax.models.tokenizer import Tokenizer, micro_tokenizer
from codea1_jax.models.weights import load_params, resolve
from codea1_jax.runtime import fingerprint
from codea1_jax.runtime.gather import any_host, is_writer
from codea1_jax.training.warm_start import warm_start
from data_pipeline import micro

logger = logging.getLogger(__name__)

T = TypeVar("T")


def make_policy(config: ModelConfig) -> Policy:
    dtype = jnp.dtype(config.compute_dtype)
    if config.pretrained is not None:
        directory = resolve(config.pretrained)
        return pretrained_policy(
            directory,
            dtype=dtype,
            remat=config.remat,
            attention=config.attention,
            enable_thinking=config.enable_thinking,
        )
    assert config.architecture is not None  # the configuration has exactly one source
    tokenizer = micro_tokenizer(micro.words(micro.FORMS[config.architecture.words]))
    tokenizer.hf.chat_template = None  # its prompts are plain, so an exported model must not offer a chat
    shape = from_scratch(config.architecture, tokenizer.vocab_size)
    return Policy(Transformer(shape, dtype, jnp.dtype("float32"), config.remat, config.attention), tokenizer)


def make_policies(config: Config) -> dict[str, Policy]:
    """Every policy that is trained, by its name; those of one model are the same.

    Raises UserError if a role's prompt and response may be longer than its model's context.
    """
    named, rollout = config.by_model(make_policy), config.rollout
    lengths: dict[Role, int] = {
        "code": rollout.code_prompt_tokens + rollout.code_tokens,
        "test": rollout.test_prompt_tokens + rollout.test_tokens,
    }
    for role, name in METHODS[config.method.name].roles.items():
        context = named[name].model.architecture.max_position_embeddings
        if lengths[role] > context:
            raise UserError(
                f"rollout.{role}_prompt_tokens + rollout.{role}_tokens = {lengths[role]} is more than the context of "
                f"the model, {context}; lower them"
            )
    return named


def by_role(config: Config, named: Mapping[str, T]) -> dict[Role, T]:
    """What belongs to the policy that plays each role; a role that no policy plays is asked about as the other's."""
    roles = METHODS[config.method.name].roles
    other = next(iter(roles.values()))
    return {"code": named[roles.get("code", other)], "test": named[roles.get("test", other)]}


def make_prompts(config: Config, policies: Mapping[Role, Policy]) -> dict[Role, Prompts]:
    answers = config.method.answer_prediction
    return {role: prompts_of(config, policy.tokenizer, answers=answers) for role, policy in policies.items()}


def prompts_of(config: Config, tokenizer: Tokenizer, *, answers: bool, templates: Templates | None = None) -> Prompts:
    if config.prompts.style == "plain":
        return plain_prompts(tokenizer)
    return chat_prompts(
        tokenizer,
        config.rewards.suite_size,
        answers=answers,
        short=config.method.asks_shortly,
        templates=templates or config.prompts.templates,
        own=config.prompts.source == "dataset",
    )


@dataclass(frozen=True)
class InitialWeights:
    """What policies of a model start from: pretrained weights, a warm start (cached by what made it), or random ones.

    Under LoRA no update changes the weights: they are in the type that is computed with.
    """

    config: Config
    model: ModelConfig

    def params(self, policy: Policy, mesh: Mesh) -> Params:
        if self.model.pretrained is not None:
            model = policy.model if self.config.lora is None else policy.model.clone(param_dtype=policy.model.dtype)
            return load_params(resolve(self.model.pretrained), model, abstract_sharded(model, mesh))
        params = self._trained_from_scratch(policy, mesh)
        return params if self.config.lora is None else frozen(params, policy.model.dtype)

    def lora_base(self, policy: Policy, mesh: Mesh, digest: str | None) -> Params:
        """LoRA's base, found again. Raises UserError unless it is the one of this digest, that the run began with."""
        params = self.params(policy, mesh)
        if fingerprint.digest(params) != digest:
            source = self.model.pretrained or f"the warm start in {self.config.warm_start_cache}"
            raise UserError(
                f"lora: {source} is not what this run's adapters were trained on; put the same weights there"
            )
        return params

    def _trained_from_scratch(self, policy: Policy, mesh: Mesh) -> Params:
        settings, seed = self.config.warm_start, self.config.run.seed
        if settings is None:
            return init_sharded(policy.model, jax.random.key(seed), mesh)
        cached = Path(self.config.warm_start_cache) / self._digest(settings)
        if not any_host(not cached.exists()):
            logger.info("warm start: found in %s", cached)
            return load_params(cached, policy.model, abstract_sharded(policy.model, mesh))
        params = warm_start(policy, settings, seed, mesh, self._form)
        unfinished = cached.with_name(f"{cached.name}.{os.getpid()}.tmp")
        save_policy(unfinished, policy, params)
        if is_writer():
            try:
                unfinished.rename(cached)
            except OSError:
                if not cached.exists():
                    raise
                shutil.rmtree(unfinished)  # another run made the same in the meantime
        return params

    @property
    def _form(self) -> micro.Form:
        assert self.model.architecture is not None  # which a warm start needs
        return micro.FORMS[self.model.architecture.words]

    def _digest(self, settings: WarmStartConfig) -> str:
        seed = self.config.run.seed
        made_by = {
            "warm_start": settings.model_dump(mode="json"),
            "model": self.model.model_dump(mode="json"),
            "vocabulary": micro.words(self._form),
            "corpus": [vars(transcript) for transcript in micro.warm_start(100, seed, form=self._form)],
            "seed": seed,
        }
        return hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:16]
