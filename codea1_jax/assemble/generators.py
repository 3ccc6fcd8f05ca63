"""From what a user names as a model to something that writes programs and tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import yaml
from jax.sharding import Mesh

from codea1_jax.assemble.convert import Source, open_source
from codea1_jax.assemble.players import capacity_of
from codea1_jax.assemble.policies import make_prompts
from codea1_jax.config import Config, RolloutConfig
from codea1_jax.evals.endpoint import find_endpoint
from codea1_jax.evals.generators import Generator, Talker
from codea1_jax.evals.policies import PolicyModel
from codea1_jax.evals.prompts import AskPrompt, chat_asks, plain_asks
from codea1_jax.game.round import Speaker
from codea1_jax.methods import METHODS, Role
from codea1_jax.models.policy import Policy
from codea1_jax.models.qwen2 import Params
from codea1_jax.models.sharding import MeshConfig, batch_parts, make_mesh
from codea1_jax.rollout import Completion, Request, Sampler, Sampling
from codea1_jax.run.config import ConfigError
from codea1_jax.run.rundir import CONFIG_FILE

SUITE_SIZE = 8  # K, tests asked for in one suite
ROWS = 256  # samples decoded at once, about


def make_generator(model: str, role: Role, served: str | None, key: str, sampling: Sampling, seed: int) -> Generator:
    """The generator that `model` names: http://..., a run's directory, a model's directory, or a Hub id.

    `role` is the one played by the policy taken of a run. Raises ConfigError if `model` names nothing that can be
    sampled.
    """
    if model.startswith(("http://", "https://")):
        return Talker(find_endpoint(model, served, sampling, SUITE_SIZE, key))
    config = _config_of_run(Path(model))
    try:
        source = open_source(model, None if config is None else _policy_name(config, role))
    except OSError as error:
        raise ConfigError(f"--model: {' '.join(str(error).split())}") from error
    policy, speaker = _loaded(source, sampling, seed)
    prompt = chat_asks(policy.tokenizer, SUITE_SIZE) if config is None else _asks_of_run(config, policy)
    return Talker(PolicyModel(speaker, prompt, policy.tokenizer.decode))


def _config_of_run(directory: Path) -> Config | None:
    path = directory / CONFIG_FILE
    return Config.model_validate(yaml.safe_load(path.read_text())) if path.is_file() else None


def _policy_name(config: Config, role: Role) -> str:
    roles = METHODS[config.method.name].roles
    if role not in roles:
        raise ConfigError(f"--model: a run of {config.method.name} trains no {role} policy")
    return roles[role]


def _asks_of_run(config: Config, policy: Policy) -> AskPrompt:
    """As the run itself asks."""
    if config.prompts == "plain":
        return plain_asks(policy.tokenizer, make_prompts(config, policy))
    return chat_asks(policy.tokenizer, config.rewards.suite_size)


def _loaded(source: Source, sampling: Sampling, seed: int) -> tuple[Policy, Speaker]:
    """The policy over the devices at hand; on accelerators it computes in bfloat16."""
    dtype = jnp.dtype("float32" if jax.default_backend() == "cpu" else "bfloat16")
    model = source.policy.model.clone(dtype=dtype, param_dtype=dtype)
    devices = jax.devices()
    mesh = make_mesh(MeshConfig(), devices[: math.gcd(len(devices), model.config.hidden_size)])
    policy = Policy(model, source.policy.tokenizer)
    return policy, _speaker(policy, source.read(model, mesh), mesh, sampling, seed)


def _speaker(policy: Policy, params: Params, mesh: Mesh, sampling: Sampling, seed: int) -> Speaker:
    """A model whose caches are made to measure for the requests of each call."""

    def speak(requests: Sequence[Request]) -> Iterator[tuple[int, tuple[Completion, ...]]]:
        if not requests:
            return
        width = max(request.samples for request in requests)
        groups = max(1, min(len(requests), ROWS // width))
        longest = max(len(request.prompt) for request in requests)
        capacity = capacity_of(RolloutConfig(), batch_parts(mesh), groups, width, longest, sampling.max_new_tokens)
        eos_ids, pad_id = policy.tokenizer.eos_ids, policy.tokenizer.pad_id
        sampler = Sampler(policy.model, eos_ids=eos_ids, pad_id=pad_id, seed=seed, capacity=capacity, mesh=mesh)
        yield from sampler.generate(params, requests, sampling)

    return speak
