"""The policy that both roles share, what its parameters start from, and how it learns."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from codea1_jax.checkpoint import fingerprint
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, LoRAConfig, ModelConfig, WarmStartConfig
from codea1_jax.game.prompts import Prompts, chat_prompts, plain_prompts
from codea1_jax.hosts.gather import any_host, is_writer
from codea1_jax.learn import frozen
from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.models.families import from_scratch
from codea1_jax.models.policy import Policy, pretrained_policy, save_policy
from codea1_jax.models.sharding import init_sharded, param_shardings
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.models.weights import load_params, resolve
from codea1_jax.training.warm_start import warm_start
from data_pipeline import micro

logger = logging.getLogger(__name__)


def make_policy(config: ModelConfig) -> Policy:
    """The architecture and tokenizer that both roles share."""
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
    tokenizer = micro_tokenizer(micro.WORDS)
    tokenizer.hf.chat_template = None  # its prompts are plain, so an exported model must not offer a chat
    shape = from_scratch(config.architecture, tokenizer.vocab_size)
    return Policy(Transformer(shape, dtype, jnp.dtype("float32"), config.remat, config.attention), tokenizer)


def make_prompts(config: Config, policy: Policy) -> Prompts:
    """The prompts of both roles in the configured style."""
    if config.prompts.style == "plain":
        return plain_prompts(policy.tokenizer)
    method = config.method
    return chat_prompts(
        policy.tokenizer,
        config.rewards.suite_size,
        answers=method.answer_prediction,
        short=method.asks_shortly,
        templates=config.prompts.templates,
        own=config.prompts.source == "dataset",
    )


@dataclass(frozen=True)
class InitialWeights:
    """What all policies start from: pretrained weights, a warm start (cached by what made it), or random weights.

    unfinished: where a warm start is saved until it is whole. Under LoRA no update changes the weights: they are in the
    type that is computed with.
    """

    model: ModelConfig
    warm_start: WarmStartConfig | None
    cache: Path
    unfinished: Path
    seed: int
    lora: LoRAConfig | None

    @classmethod
    def of(cls, config: Config) -> InitialWeights:
        """From a configuration."""
        unfinished = Path(config.run.directory) / "warm_start"
        cache = Path(config.warm_start_cache)
        return cls(config.model, config.warm_start, cache, unfinished, config.run.seed, config.lora)

    def params(self, policy: Policy, mesh: Mesh) -> Params:
        """The parameters on a mesh."""
        if self.model.pretrained is not None:
            model = policy.model if self.lora is None else policy.model.clone(param_dtype=policy.model.dtype)
            return load_params(resolve(self.model.pretrained), model, param_shardings(policy.model, mesh))
        params = self._trained_from_scratch(policy, mesh)
        return params if self.lora is None else frozen(params, policy.model.dtype)

    def lora_base(self, policy: Policy, mesh: Mesh, digest: str | None) -> Params:
        """LoRA's base, found again. Raises UserError unless it is the one of this digest, that the run began with."""
        params = self.params(policy, mesh)
        if fingerprint.digest(params) != digest:
            source = self.model.pretrained or f"the warm start in {self.cache}"
            raise UserError(
                f"lora: {source} is not what this run's adapters were trained on; put the same weights there"
            )
        return params

    def _trained_from_scratch(self, policy: Policy, mesh: Mesh) -> Params:
        if self.warm_start is None:
            return init_sharded(policy.model, jax.random.key(self.seed), mesh)
        cached = self.cache / self._digest(self.warm_start)
        if not any_host(not cached.exists()):
            logger.info("warm start: found in %s", cached)
            return load_params(cached, policy.model, param_shardings(policy.model, mesh))
        params = warm_start(policy, self.warm_start, self.seed, mesh, self.unfinished)
        unfinished = cached.with_name(f"{cached.name}.{os.getpid()}.tmp")
        save_policy(unfinished, policy, params)
        if is_writer():
            _finish(unfinished, cached)
        return params

    def _digest(self, config: WarmStartConfig) -> str:
        """A hash of all that a warm start depends on."""
        made_by = {
            "warm_start": config.model_dump(mode="json"),
            "model": self.model.model_dump(mode="json"),
            "vocabulary": micro.WORDS,
            "corpus": [vars(transcript) for transcript in micro.warm_start(100, self.seed)],
            "seed": self.seed,
        }
        return hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:16]


def _finish(unfinished: Path, cached: Path) -> None:
    try:
        unfinished.rename(cached)
    except OSError:
        if not cached.exists():
            raise
        shutil.rmtree(unfinished)  # another run made the same in the meantime
