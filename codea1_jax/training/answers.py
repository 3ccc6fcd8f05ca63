"""From what a user names as a model to a player that is evaluated."""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from codea1_jax.common.errors import UserError
from codea1_jax.config import METHODS, Config, MeshConfig, Reading, Role, Templates
from codea1_jax.config.prompts import BUILT_IN_TEMPLATES
from codea1_jax.evals.endpoint import find_endpoint
from codea1_jax.game.players import Player, PolicyPlayer, TextPlayer
from codea1_jax.game.prompts import Prompts, chat_prompts, plain_prompts
from codea1_jax.models.decoder import Params
from codea1_jax.models.policy import Policy
from codea1_jax.models.sharding import make_mesh
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.models.weights import resolve
from codea1_jax.rollout import Completion, Request, Sampler, Sampling
from codea1_jax.run.rundir import find_run
from codea1_jax.runtime.checkpoints import Checkpoints
from codea1_jax.training.convert import open_policy, step_of
from codea1_jax.training.fitting import fitting_capacity, free_memory, within_context
from codea1_jax.training.policies import prompts_of

SUITE_SIZE = 8  # K, tests asked for in one suite
ENDPOINT = ("http://", "https://")


def make_player(
    model: str,
    role: Role,
    served: str | None,
    key: str,
    sampling: Sampling,
    seed: int,
    reading: Reading | None = None,
    templates: Templates | None = None,
    dtype: str | None = None,
) -> Player:
    """The player that `model` names: http://..., a run (runs/mine, or runs/mine@40), a model's directory, or a Hub id.

    A run plays with its policy of that `role`, of the newest checkpoint or of the step that is named.
    reading, templates: None: as in the run, else the default. dtype: of parameters and computation; None: bfloat16, on
    a CPU float32 unless the parameters are kept in bfloat16. Raises UserError if `model` names nothing to sample from.
    """
    if model.startswith(ENDPOINT):
        if dtype is not None:
            raise UserError(f"{model} computes in a dtype of its own; leave the dtype out")
        endpoint = find_endpoint(model, served, sampling, SUITE_SIZE, key, templates or BUILT_IN_TEMPLATES)
        return TextPlayer(endpoint.respond, reading or "commonmark")
    run = find_run(model)
    config = None if run is None else Config.model_validate(run.config)
    try:
        source = open_policy(model, None if config is None else _policy_name(config, role))
    except OSError as error:
        raise UserError(f"{' '.join(str(error).split())}") from error
    computed = jnp.dtype(dtype or source.fast_dtype)
    policy = Policy(source.policy.model.clone(dtype=computed, param_dtype=computed), source.policy.tokenizer)
    architecture, devices = policy.model.architecture, jax.devices()
    mesh = make_mesh(MeshConfig(), devices[: math.gcd(len(devices), architecture.hidden_size)])
    sample = partial(_sample, policy, source.decode_params(policy.model, mesh), mesh, sampling, seed)
    longest = architecture.max_position_embeddings - 1
    prompts = _prompts(policy.tokenizer, config, templates)
    reading = reading or ("commonmark" if config is None else config.reading)
    return PolicyPlayer(sample, prompts, policy.tokenizer.decode, longest, reading)


def suite_size(model: str | None) -> int:
    run = None if model is None else find_run(model)
    return SUITE_SIZE if run is None else Config.model_validate(run.config).rewards.suite_size


def _policy_name(config: Config, role: Role) -> str:
    roles = METHODS[config.method.name].roles
    if role not in roles:
        raise UserError(f"a run of {config.method.name} trains no {role} policy")
    return roles[role]


def model_identity(model: str) -> str | None:
    """A text that changes when the run that `model` names has a new checkpoint, or when its files change.

    It is the same on every machine. None for an endpoint, whose weights are not known. Reads the whole model: seconds
    for each GB. Raises UserError as `make_player` does.
    """
    if model.startswith(ENDPOINT):
        return None
    digest = hashlib.sha256()
    if (run := find_run(model)) is not None:
        with Checkpoints(run.checkpoints, read_only=True) as checkpoints:
            step = step_of(run, checkpoints)
            _, document = checkpoints.look(step)
        digest.update(json.dumps(document, sort_keys=True).encode())  # it holds the run's metrics with their times
        return f"step {step}, {digest.hexdigest()[:16]}"
    try:
        directory = resolve(model)
        for path in sorted(path for path in directory.rglob("*") if path.is_file()):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.relative_to(directory)} {content}\n".encode())
    except OSError as error:
        raise UserError(f"{' '.join(str(error).split())}") from error
    return digest.hexdigest()[:16]


def _prompts(tokenizer: Tokenizer, config: Config | None, templates: Templates | None) -> Prompts:
    """As the run itself asks, but that tests always state their answers; plain to a model without a chat template."""
    if tokenizer.hf.chat_template is None:
        return plain_prompts(tokenizer)
    if config is None:
        return chat_prompts(tokenizer, SUITE_SIZE, templates=templates or BUILT_IN_TEMPLATES)
    return prompts_of(config, tokenizer, answers=True, templates=templates)


def _sample(
    policy: Policy, params: Params, mesh: Mesh, sampling: Sampling, seed: int, requests: Sequence[Request]
) -> Iterator[tuple[int, tuple[Completion, ...]]]:
    """As `Sampler.generate`, with a cache that is made to measure for these requests."""
    if not requests:
        return
    model, tokenizer, most = policy.model, policy.tokenizer, sampling.max_new_tokens
    requests = within_context(requests, most, model.architecture.max_position_embeddings)
    response = max(max(request.limits, default=most) for request in requests)
    free, copied = free_memory(mesh), mesh.devices.flat[0].platform == "cpu"
    capacity = fitting_capacity(model, mesh, requests, response, free, copied=copied)
    ends = {"eos_ids": tokenizer.eos_ids, "pad_id": tokenizer.pad_id}
    # On a CPU, compiling takes cores and memory from sampling: nothing is compiled that may not be needed.
    sampler = Sampler(model, **ends, seed=seed, capacity=capacity, mesh=mesh, samples="responses", ahead=not copied)
    yield from sampler.generate(params, requests, replace(sampling, max_new_tokens=response))
