"""What learning relies on: the same gradient twice, one model in the sampler and the learner, and an exact resume."""

from __future__ import annotations

import json
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from codea1_jax.config import Config, MethodConfig, PackingConfig, RolloutConfig, load
from codea1_jax.doctor.selftest.checks import Check, Row, within
from codea1_jax.game.rewards import RewardFunctions
from codea1_jax.learn import Learner, Trajectory, frozen
from codea1_jax.learn.learning import Learning
from codea1_jax.learn.objectives import as_example
from codea1_jax.learn.packing import pack
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.models.sharding import batch_sharding, batch_shards, init_sharded, make_mesh, put
from codea1_jax.rollout import Request, Sampler, Sampling
from codea1_jax.rollout.capacity import capacity_of
from codea1_jax.run.rundir import CHECKPOINTS_FOLDER, RunDir
from codea1_jax.runtime.fingerprint import digest
from codea1_jax.training.judges import WatchedJudge, make_judge
from codea1_jax.training.loop import train
from codea1_jax.training.parts import make_training
from codea1_jax.training.questions import NONE_GIVEN
from codea1_jax.training.start import resume, start
from codea1_jax.training.state import State, pack_state

RUN_STEPS = 1000  # of a run of which one step is made, so that its learning rate is not 0
LAYERS = 2  # of the model's; what more of them could show, two show
PROMPT, RESPONSE, SAMPLES = 96, 32, 4
# Nats, the mean over tokens. On a CPU 2e-7 and 0.006 (the width of 1.5B); 0.02 where attention is off by a twentieth.
LOGPROB_ERROR = {"float32": 1e-5, "bfloat16": 0.012}
STEPS = 3
# A run of seconds that passes through everything: judge, book, both updates, checkpoints.
_TINY_RUN = (
    "model.architecture={hidden_size: 32, intermediate_size: 64, num_layers: 1, num_heads: 2, num_kv_heads: 1}",
    *("model.architecture.head_dim=16", "warm_start=null", "hardware=null", "run.wandb=null"),
    *("rollout.samples=2", "rollout.suites=2", "rollout.rows=8", "rollout.code_tokens=16", "rollout.test_tokens=16"),
    *("code.grpo.mini_batch_questions=2", "test.grpo.mini_batch_questions=2"),
    *("train.questions=2", f"train.steps={STEPS}", "data.problems=8", "data.heldout_problems=2", "eval.every=0"),
    *("checkpoint.every=1", f"checkpoint.keep_last={STEPS}"),
)


def learning_checks(config: Config, shape: Architecture) -> Iterator[Check]:
    """For a configuration whose model has this shape."""
    shallow = replace(shape, num_layers=min(LAYERS, shape.num_layers))
    for name, run in (("gradient twice", _twice), ("sampler and learner", _sampler_and_learner)):
        yield Check(name, partial(run, name, config, shallow))
    yield Check("save and resume", partial(_resumed, "save and resume"))


def _random_policy(config: Config, shape: Architecture, mesh: Mesh) -> tuple[Transformer, Params, Learner]:
    """A model, random weights of it, and the learner of the Code LLM."""
    model = config.model
    made = Transformer(shape, jnp.dtype(model.compute_dtype), jnp.dtype("float32"), model.remat, model.attention)
    # Adapters begin as zeros.
    plain = config.model_copy(update={"lora": None, "method": MethodConfig()})
    learner = Learning(plain).learners({"code": made, "test": made}, RUN_STEPS, mesh)["code"]
    return made, init_sharded(made, jax.random.key(0), mesh), learner


def _twice(name: str, config: Config, shape: Architecture) -> Iterator[Row]:
    """One update of the same policy on the same trajectories, twice: not a bit may differ."""
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
    """Log-probabilities of what the sampler drew, as it gave them and as the learner computes them."""
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
        for index, samples in sampler.generate(params, requests, Sampling(RESPONSE, config.drawn_at("code")[0]))
        for sample in samples
    ]
    errors = []
    for batch in pack(drawn, PackingConfig(row_length=512, micro_batch_tokens=1024), shards):
        learned = np.asarray(learner.phases.logprobs(params, put(batch, batch_sharding(mesh))), np.float64)
        errors += np.abs(learned - batch.rollout_logprobs)[batch.mask > 0].tolist()
    yield within(name, float(np.mean(errors)), LOGPROB_ERROR[config.model.compute_dtype])


def _resumed(name: str) -> Iterator[Row]:
    """A tiny run; then its last step again, from the checkpoint before it: not a bit may differ."""
    with tempfile.TemporaryDirectory() as folder:
        config = load(Config, "micro/a1", [*_TINY_RUN, f"run.directory={folder}/run"])
        with make_judge(config.sandbox) as judge:
            # Untrained models earn nothing: lengths tell their responses apart, so that no group is all alike.
            rewards = RewardFunctions(lambda it: len(it.response) % 7 / 7, lambda it: len(it.response) % 5 / 5)
            training = make_training(config, WatchedJudge(judge), NONE_GIVEN, rewards)
            directory = Path(folder) / "run"
            with RunDir(directory, config, config.checkpoint, resume=False) as run:
                whole = _fingerprint(train(training, start(training), run))
            shutil.rmtree(directory / CHECKPOINTS_FOLDER / str(STEPS))
            with RunDir(directory, config, config.checkpoint, resume=True) as run:
                again = _fingerprint(train(training, resume(training, run), run))
    yield Row(name, whole == again, whole, again)


def _fingerprint(state: State) -> str:
    arrays, document = pack_state(state)
    return f"{digest(arrays)} {zlib.crc32(json.dumps(document).encode()):08x}"
