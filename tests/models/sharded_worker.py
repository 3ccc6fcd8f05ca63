"""Run by test_sharding.py in separate processes: what is computed on meshes against one device.

On every mesh the parameters are drawn, written to files, read back, and used: for the loss of plain sequences and its
gradient, for the learner's accumulated gradient and figures, for sampling, and for a kernel that XLA cannot partition.

Prints one JSON line {"differences": [[largest of each, relative to each array's largest value], ...], "received":
{"micro-batch": bytes, "update": bytes, "parameters": bytes}}: what each device receives in an update over replicas
alone, if there is one process, and the size of the parameters. Arguments: a folder for files, [[mesh, names of what to
compute], ...] as JSON, then, for several processes, coordinator address, process count and process index.
"""

import json
import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from capacities import for_slots
from jax.experimental import multihost_utils

from codea1_jax.config import GRPOConfig, LoRAConfig, MeshConfig, OptimizerConfig, PackingConfig
from codea1_jax.learn import GRPO, Learner, Trajectory
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.attention import flash_gpu, flash_tpu, training_attention
from codea1_jax.models.attention.flash import flash_attention, tiled
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Transformer, output_table
from codea1_jax.models.logprobs import token_logprobs
from codea1_jax.models.sharding import (
    abstract_sharded,
    batch_sharding,
    batch_shards,
    init_sharded,
    jit_on,
    make_mesh,
    param_shardings,
    put,
    replicated,
)
from codea1_jax.models.weights import load_params, save_params
from codea1_jax.plan.hlo import received_bytes
from codea1_jax.rollout import Request, Sampler, Sampling, decode, paged_tpu
from codea1_jax.rollout.readers import Paged
from codea1_jax.runtime.layout import by_replica

CONFIG = Architecture(64, 32, 48, 2, 8, 2, 8, rope_theta=1e4, tie_embeddings=False)
MODEL = Transformer(CONFIG, remat="full")
BATCH, TIME = 8, 13
KERNELS = (flash_tpu, flash_gpu)
flash_tpu.BLOCK = 128


def example():
    random = np.random.default_rng(0)
    cuts = random.integers(2, TIME - 2, (BATCH, 1))
    segments = 1 + (np.arange(TIME)[None] >= cuts)
    return random.integers(0, CONFIG.vocab_size, (BATCH, TIME)), segments


def loss(params, tokens, segments):
    positions = jnp.broadcast_to(jnp.arange(TIME)[None], tokens.shape)
    hidden, _ = MODEL.apply({"params": params}, tokens, positions, training_attention(Sight.within(segments)))
    table = output_table(params, CONFIG)
    logprobs, entropy = token_logprobs(hidden[:, :-1], table, tokens[:, 1:], chunk=4)
    return -jnp.mean(logprobs) - 0.1 * jnp.mean(entropy)


def through_files(params, mesh, directory):
    """The parameters written from the mesh and read back onto it."""
    save_params(directory, params, CONFIG, file_bytes=10_000)
    multihost_utils.sync_global_devices("written")
    return load_params(directory, MODEL, abstract_sharded(MODEL, mesh))


def loss_and_gradient(params, mesh):
    arrays = put(example(), batch_sharding(mesh))
    out = (replicated(mesh), param_shardings(MODEL, mesh))
    return jit_on(mesh, jax.value_and_grad(loss), out_shardings=out)(params, *arrays)


def groups():
    random = np.random.default_rng(1)

    def trajectory(prompt):
        completion = random.integers(2, CONFIG.vocab_size, random.integers(1, 12)).tolist()
        return Trajectory(prompt, tuple(completion), float(random.normal()))

    prompts = [tuple(random.integers(2, CONFIG.vocab_size, random.integers(1, 9)).tolist()) for _ in range(5)]
    return [[trajectory(prompt) for _ in range(3)] for prompt in prompts]


# The sign of a gradient of nearly 0, which hangs on the order of a sum, must not decide an update.
optax.scale_by_adam = partial(optax.scale_by_adam, eps=1e-2)


def learned(params, mesh, lora=None):
    """The state after a step of several micro-batches, with the gradient in its moments, and the step's figures."""
    packing = PackingConfig(row_length=32, micro_batch_tokens=64)
    optimizer = OptimizerConfig(learning_rate=1e-3)
    learner = Learner(MODEL, GRPO(GRPOConfig(kl_coef=0.5)), optimizer, packing, total_steps=4, mesh=mesh, lora=lora)
    reference = jax.tree.map(lambda x: x * 1.1, params)
    state, metrics = learner.update(learner.init(params), reference, groups(), base=reference if lora else None)
    assert jax.tree.map(lambda x: x.sharding, state) == learner.phases.state
    del metrics["padding"]  # rows are a multiple of the parts in which a mesh splits them
    return state, {name: np.float64(value) for name, value in metrics.items()}


def sampled(params, mesh):
    """Tokens and logprobs of requests that need more slots than there are."""
    parts = batch_shards(mesh)
    slots = -(-2 // parts) * parts
    capacity = for_slots(slots, 2, (16,), (4,), block=4, prefill_tokens=16, batch_shards=parts)
    sampler = Sampler(MODEL, eos_ids=(1,), pad_id=0, seed=3, capacity=capacity, mesh=mesh)
    requests = [Request(tuple(range(2, 4 + 2 * index)), (index,), samples=3) for index in range(6)]
    found = dict(sampler.generate(params, requests, Sampling(4, temperature=0.8)))
    samples = [sample for index in sorted(found) for sample in found[index]]
    return tuple(np.concatenate([getattr(sample, field) for sample in samples]) for field in ("tokens", "logprobs"))


def drawn(params, mesh, *, paged=False):
    """The tokens of requests of all lengths, some of whose samples end early, one after another, and their numbers."""
    reader_for, random = decode.reader_for, np.random.default_rng(0)
    requests = [Request(tuple(random.integers(3, 64, 2 + i).tolist()), (i,), 1 + i % 4) for i in range(12)]
    parts = batch_shards(mesh)
    capacity = for_slots(16, 2, (16,), (12,), block=4, prefill_tokens=64, batch_shards=parts)
    capacity = replace(capacity, rows=64 * parts)  # of which few are in use in the end, and on a mesh throughout
    model = MODEL.clone(architecture=replace(CONFIG, num_layers=1))
    sampler = Sampler(model, eos_ids=(7, 8, 9), pad_id=0, seed=0, capacity=capacity, mesh=mesh)
    shallow = {**params, "layers": jax.tree.map(lambda x: x[:1], params["layers"])}
    sharp = jax.tree.map(lambda x: 6 * x if x.ndim > 1 else x, shallow)
    if paged:  # as on TPUs
        decode.reader_for = lambda platform: Paged(paged_tpu, paged_tpu.SUBLANES, interpret=True)
    found = dict(sampler.generate(sharp, requests, Sampling(12)))
    decode.reader_for = reader_for
    samples = [sample.tokens for index in sorted(found) for sample in found[index]]
    assert len(samples) == 30 and len(set(samples)) > 25
    return np.concatenate(samples), np.array(list(map(len, samples)))


def kernel(_params, mesh):
    """Gradients through kernels that XLA cannot partition."""
    keys = jax.random.split(jax.random.key(4), 3)
    heads = (CONFIG.num_heads, CONFIG.num_kv_heads, CONFIG.num_kv_heads)
    arrays = [jax.random.normal(key, (2, 256, count, 8)) for key, count in zip(keys, heads, strict=True)]
    # A row of a prompt and two responses, and one of segments that see nothing of each other, which takes fewer tiles.
    segments = jnp.stack([1 + (jnp.arange(256) > 100) + (jnp.arange(256) > 200), 1 + (jnp.arange(256) > 127)])
    sight = Sight(segments, segments.at[0].set(1))

    def squares(q, k, v):
        mixed = [flash_attention(tiled(sight, one), q, k, v, kernels=one, interpret=True) for one in KERNELS]
        return sum(jnp.sum(jnp.square(x)) for x in mixed)

    return jit_on(mesh, jax.grad(squares, argnums=(0, 1, 2)), out_shardings=replicated(mesh))(*arrays)


def kernel_by_replica(_params, mesh):
    """The same where each replica computes by itself, as in a micro-batch."""
    keys = jax.random.split(jax.random.key(4), 3)
    heads = (CONFIG.num_heads, CONFIG.num_kv_heads, CONFIG.num_kv_heads)
    arrays = [jax.random.normal(key, (4, 256, count, 8)) for key, count in zip(keys, heads, strict=True)]
    segments = 1 + (jnp.arange(256)[None] > jnp.array([100, 120, 140, 160])[:, None])

    def squares(qkv, segments):
        tiles = tiled(Sight.within(segments), flash_tpu)
        return jnp.sum(jnp.square(flash_attention(tiles, *qkv, kernels=flash_tpu, interpret=True)))

    def gradients(arrays, segments):
        found = by_replica(lambda part: jax.grad(squares)(*part), (arrays, segments))
        return [x.reshape(-1, *x.shape[2:]) for x in found]

    return jit_on(mesh, gradients, out_shardings=replicated(mesh))(arrays, segments)


COMPUTE = {
    "kernel": kernel,
    "kernel by replica": kernel_by_replica,
    "loss": loss_and_gradient,
    "learner": learned,
    "adapters": partial(learned, lora=LoRAConfig(rank=3)),
    "sampler": sampled,
    "tokens": drawn,
    "paged tokens": partial(drawn, paged=True),
}


def on_mesh(sizes, names, directory):
    mesh = make_mesh(MeshConfig(**sizes))
    params = through_files(init_sharded(MODEL, jax.random.key(1), mesh), mesh, directory)
    assert jax.tree.map(lambda x: x.sharding, params) == param_shardings(MODEL, mesh)
    return [COMPUTE[name](params, mesh) for name in names]


def largest_difference(found, expected):
    def relative(x, y):
        whole = multihost_utils.process_allgather(x, tiled=True) if isinstance(x, jax.Array) else x  # else it is here
        return float(np.abs(whole - y).max() / max(np.abs(y).max(), 1e-9))

    return max(jax.tree.leaves(jax.tree.map(relative, found, expected)))


def received_over_replicas():
    mesh = make_mesh(MeshConfig(replica=8, fsdp=1))
    packing = PackingConfig(row_length=32, micro_batch_tokens=256)
    learner = Learner(MODEL, GRPO(GRPOConfig(kl_coef=0)), OptimizerConfig(), packing, total_steps=4, mesh=mesh)
    state = learner.init(init_sharded(MODEL, jax.random.key(1), mesh))
    (batch,) = learner._put(learner._pack(groups()[:1]))
    empty = learner.phases.empty(state.params)
    accumulate = learner.phases.accumulate.lower(empty, state.params, batch, np.float32(4), None).compile()
    apply = learner.phases.apply.lower(state, empty.gradient, np.float32(1)).compile()
    programs = {"micro-batch": accumulate, "update": apply}
    received = {name: received_bytes(program.as_text()) for name, program in programs.items()}
    return received | {"parameters": sum(x.nbytes for x in jax.tree.leaves(state.params))}


def main(directory, cases, coordinator=None, processes=1, index=0):
    if coordinator:
        jax.distributed.initialize(coordinator, int(processes), int(index))
    here = make_mesh(MeshConfig(), jax.local_devices()[:1])
    params = init_sharded(MODEL, jax.random.key(1), here)
    expected = cache(lambda name: jax.device_get(COMPUTE[name](params, here)))
    found = []
    for number, (sizes, names) in enumerate(cases):
        values = on_mesh(sizes, names, directory / str(number))
        same = [expected(name.removeprefix("paged ")) for name in names]
        found.append([largest_difference(*pair) for pair in zip(values, same, strict=True)])
    print(json.dumps({"differences": found, "received": None if coordinator else received_over_replicas()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), *sys.argv[3:])
