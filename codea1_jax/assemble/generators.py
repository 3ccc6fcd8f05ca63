"""From what a user names as a model to something that writes programs and tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp

from codea1_jax.assemble.players import BLOCK, buckets
from codea1_jax.evals.endpoint import find_endpoint
from codea1_jax.evals.generators import Generator, Talker
from codea1_jax.evals.policies import PolicyModel
from codea1_jax.evals.prompts import chat_asks
from codea1_jax.game.round import Speaker
from codea1_jax.models.policy import Policy, pretrained_policy
from codea1_jax.models.qwen2 import Params
from codea1_jax.models.weights import load_params, resolve
from codea1_jax.rollout import Capacity, Completion, Request, Sampler, Sampling
from codea1_jax.run.config import ConfigError

Role = Literal["code", "test"]

SUITE_SIZE = 8  # K, tests asked for in one suite
PREFILL_TOKENS = 8192  # prompt tokens in one prefill, about
ROWS = 256  # samples decoded at once, about


def make_generator(model: str, role: Role, served: str | None, key: str, sampling: Sampling, seed: int) -> Generator:
    """The generator that `model` names: http://..., a run's directory, a Hugging Face directory, or a Hub id.

    `role` is the policy taken of a run's two.

    Raises ConfigError if it names nothing that can be sampled.
    """
    if model.startswith(("http://", "https://")):
        return Talker(find_endpoint(model, served, sampling, SUITE_SIZE, key))
    try:
        directory = resolve(model)
    except OSError as error:
        raise ConfigError(f"--model: {' '.join(str(error).split())}") from error
    return Talker(_pretrained(directory, sampling, seed))


def _pretrained(directory: Path, sampling: Sampling, seed: int) -> PolicyModel:
    if not (directory / "config.json").is_file():
        raise ConfigError(f"--model: {directory} holds no config.json, so it is no model")
    dtype = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
    policy = pretrained_policy(directory, dtype=dtype, param_dtype=dtype)
    speaker = sized_speaker(policy, load_params(directory, policy.model), sampling, seed)
    return PolicyModel(speaker, chat_asks(policy.tokenizer, SUITE_SIZE), policy.tokenizer.decode)


def sized_speaker(policy: Policy, params: Params, sampling: Sampling, seed: int) -> Speaker:
    """A model whose caches are made to measure for the requests of each call."""

    def speak(requests: Sequence[Request]) -> Iterator[tuple[int, tuple[Completion, ...]]]:
        if not requests:
            return
        width = max(request.samples for request in requests)
        capacity = Capacity(
            slots=max(1, min(len(requests), ROWS // width)),
            width=width,
            prompt_buckets=buckets(max(len(request.prompt) for request in requests)),
            response_buckets=(-(-sampling.max_new_tokens // BLOCK) * BLOCK,),
            block=BLOCK,
            prefill_tokens=PREFILL_TOKENS,
        )
        tokenizer = policy.tokenizer
        sampler = Sampler(
            policy.model, eos_ids=tokenizer.eos_ids, pad_id=tokenizer.pad_id, seed=seed, capacity=capacity
        )
        yield from sampler.generate(params, requests, sampling)

    return speak
