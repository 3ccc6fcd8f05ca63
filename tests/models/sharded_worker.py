"""Run by test_sharding.py in processes of their own: loss and gradients on meshes against one device.

On every mesh the parameters are drawn, written to files, read back, and used.

Prints one JSON line {mesh: largest difference, relative to each array's largest value}. Arguments: a folder for
files, the meshes as JSON, then, for several processes, coordinator address, process count and process index.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from codea1_jax.models.attention import training_attention
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.logprobs import token_logprobs
from codea1_jax.models.qwen2 import Qwen2, init_params, output_table
from codea1_jax.models.sharding import MeshConfig, batch_sharding, init_sharded, make_mesh, param_shardings
from codea1_jax.models.weights import load_params, save_params

CONFIG = Qwen2Config(64, 32, 48, 2, 8, 2, 8, rope_theta=1e4, tie_embeddings=False)
MODEL = Qwen2(CONFIG, remat="full")
BATCH, TIME = 8, 13


def example():
    random = np.random.default_rng(0)
    cuts = random.integers(2, TIME - 2, (BATCH, 1))
    segments = 1 + (np.arange(TIME)[None] >= cuts)
    return random.integers(0, CONFIG.vocab_size, (BATCH, TIME)), segments


def loss(params, tokens, segments):
    positions = jnp.broadcast_to(jnp.arange(TIME)[None], tokens.shape)
    hidden, _ = MODEL.apply({"params": params}, tokens, positions, training_attention(segments))
    table = output_table(params, CONFIG)
    logprobs, entropy = token_logprobs(hidden[:, :-1], table, tokens[:, 1:], chunk=4)
    return -jnp.mean(logprobs) - 0.1 * jnp.mean(entropy)


def through_files(params, mesh, directory):
    """The parameters written from the mesh and read back onto it."""
    save_params(directory, params, CONFIG, file_bytes=10_000)
    multihost_utils.sync_global_devices("written")
    return load_params(directory, MODEL, param_shardings(MODEL, mesh))


def on_mesh(sizes, directory):
    mesh = make_mesh(MeshConfig(**sizes))
    with jax.set_mesh(mesh):
        params = through_files(init_sharded(MODEL, jax.random.key(1), mesh), mesh, directory)
        arrays = [
            jax.make_array_from_callback(x.shape, batch_sharding(mesh), lambda index, x=x: x[index]) for x in example()
        ]
        return jax.jit(jax.value_and_grad(loss))(params, *arrays)


def largest_difference(found, expected):
    whole = multihost_utils.process_allgather(found, tiled=True)
    relative = jax.tree.map(lambda x, y: float(np.abs(x - y).max() / np.abs(y).max()), whole, expected)
    return max(jax.tree.leaves(relative))


def main(directory, meshes, coordinator=None, processes=1, index=0):
    if coordinator:
        jax.distributed.initialize(coordinator, int(processes), int(index))
    params = init_params(MODEL, jax.random.key(1))
    expected = jax.device_get(jax.jit(jax.value_and_grad(loss))(params, *example()))
    found = {}
    for number, sizes in enumerate(meshes):
        values = on_mesh(sizes, directory / str(number))
        found[str(sizes)] = largest_difference(values, expected)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), *sys.argv[3:])
