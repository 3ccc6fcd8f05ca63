"""What learning relies on: the same gradient twice, and one model in the sampler and the learner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from codea1_jax.config import Config, MethodConfig, PackingConfig, RolloutConfig
from codea1_jax.doctor.selftest.checks import Check, Row, within
from codea1_jax.learn import Learner, Trajectory, frozen
from codea1_jax.learn.learning import Learning
from codea1_jax.learn.objectives import as_example
from codea1_jax.learn.packing import pack
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.models.sharding import batch_sharding, batch_shards, init_sharded, make_mesh, put
from codea1_jax.rollout import Request, Sampler, Sampling
from codea1_jax.rollout.capacity import capacity_of
from codea1_jax.runtime.fingerprint import digest

RUN_STEPS = 1000  # of a run of which one step is made, so that its learning rate is not 0
LAYERS = 2  # of the model's; what more of them could show, two show
PROMPT, RESPONSE, SAMPLES = 96, 32, 4
# Nats, the mean over tokens. On a CPU 2e-7 and 0.006 (the width of 1.5B); 0.02 where attention is off by a twentieth.
LOGPROB_ERROR = {"float32": 1e-5, "bfloat16": 0.012}


def learning_checks(config: Config, shape: Architecture) -> Iterator[Check]:
    shallow = replace(shape, num_layers=min(LAYERS, shape.num_layers))
    for name, run in (("gradient twice", _twice), ("sampler and learner", _sampler_and_learner)):
        yield Check(name, partial(run, name, config, shallow))


def _random_policy(config: Config, shape: Architecture, mesh: Mesh) -> tuple[Transformer, Params, Learner]:
    model = config.model
    made = Transformer(shape, jnp.dtype(model.compute_dtype), jnp.dtype("float32"), model.remat, model.attention)
    # Adapters begin as zeros.
    plain = config.model_copy(update={"lora": None, "method": MethodConfig()})
    learner = Learning(plain).learners({"code": made, "test": made}, RUN_STEPS, mesh)["code"]
    return made, init_sharded(made, jax.random.key(0), mesh), learner


def _twice(name: str, config: Config, shape: Architecture) -> Iterator[Row]:
    mesh = make_mesh(config.mesh)
    model, params, learner = _random_policy(config, shape, mesh)
    groups, digests = _random_groups(shape.vocab_size), []
    for _ in range(2):
        reference = frozen(params, model.dtype)
        state, _ = learner.update(learner.init(params), reference, groups)
        digests.append(digest(state.params))
    yield Row(name, digests[0] == digests[1], digests[0], digests[1])


def _random_groups(vocabulary: int) -> list[list[Trajectory]]:
    """Few tokens are frequent, as in any text: the gradient of their embeddings sums many places."""
    random = np.random.default_rng(0)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple((random.zipf(1.3, count) % vocabulary).tolist())

    prompts = [tokens(PROMPT) for _ in range(SAMPLES)]
    return [[Trajectory(prompt, tokens(RESPONSE), (-1.0) ** turn) for turn in range(SAMPLES)] for prompt in prompts]


def _sampler_and_learner(name: str, config: Config, shape: Architecture) -> Iterator[Row]:
    mesh = make_mesh(config.mesh)
    model, params, learner = _random_policy(config, shape, mesh)
    shards = batch_shards(mesh)
    rollout = RolloutConfig(rows=2 * shards * SAMPLES, block=config.rollout.block, prefill_tokens=2 * PROMPT)
    capacity = capacity_of(rollout, shards, 2 * shards, SAMPLES, PROMPT, RESPONSE)
    sampler = Sampler(model, eos_ids=(-1,), pad_id=0, seed=0, capacity=capacity, mesh=mesh)
    prompts = [group[0].prompt for group in _random_groups(shape.vocab_size)]
    requests = [Request(prompt, (index,), SAMPLES) for index, prompt in enumerate(prompts)]
    drawn = [
        as_example(Trajectory(prompts[index], sample.tokens, 1.0, logprobs=tuple(sample.logprobs)))
        for index, samples in sampler.generate(params, requests, Sampling(RESPONSE, config.sampling_of("code")[0]))
        for sample in samples
    ]
    errors = []
    for batch in pack(drawn, PackingConfig(row_length=512, micro_batch_tokens=1024), shards):
        learned = np.asarray(learner.phases.logprobs(params, put(batch, batch_sharding(mesh))), np.float64)
        errors += np.abs(learned - batch.rollout_logprobs)[batch.mask > 0].tolist()
    yield within(name, float(np.mean(errors)), LOGPROB_ERROR[config.model.compute_dtype])
