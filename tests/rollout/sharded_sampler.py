"""Run by test_sharded_sampler.py in separate processes: what a sampler draws on every mesh.

Prints one JSON line {mesh: [[tokens of each sample] of each request]}; "one device" is there too. Arguments: the meshes
as JSON, then, for several processes, coordinator address, process count and process index.
"""

import json
import sys
from dataclasses import replace

import jax
import numpy as np
from capacities import for_slots

from codea1_jax.config import MeshConfig
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer
from codea1_jax.models.sharding import batch_shards, init_sharded, make_mesh
from codea1_jax.rollout import Request, Sampler, Sampling, decode, paged_tpu
from codea1_jax.rollout.readers import Paged

CONFIG = Architecture(64, 32, 48, 1, 8, 2, 8, rope_theta=1e4, tie_embeddings=False)
MODEL = Transformer(CONFIG)


def requests():
    random = np.random.default_rng(0)
    return [Request(tuple(random.integers(3, 64, 2 + i).tolist()), (i,), 1 + i % 4) for i in range(12)]


def sampler_on(mesh):
    shards = batch_shards(mesh)
    capacity = for_slots(16, 2, (16,), (12,), block=4, prefill_tokens=64, batch_shards=shards)
    # Of the rows few are in use in the end, and on a mesh throughout.
    capacity = replace(capacity, rows=64 * shards)
    return Sampler(MODEL, eos_ids=(7, 8, 9), pad_id=0, seed=0, capacity=capacity, mesh=mesh)


def drawn_on(mesh, *, paged=False):
    if paged:  # as on TPUs
        decode.reader_for = lambda platform: Paged(paged_tpu, paged_tpu.SUBLANES, interpret=True)
    params = jax.tree.map(lambda x: 6 * x if x.ndim > 1 else x, init_sharded(MODEL, jax.random.key(1), mesh))
    sampler = sampler_on(mesh)
    results = dict(sampler.generate(params, requests(), Sampling(12)))
    return [[completion.tokens for completion in results[i]] for i in range(len(results))]


def main(meshes, coordinator=None, processes=1, index=0):
    if coordinator:
        jax.distributed.initialize(coordinator, int(processes), int(index))
    one = make_mesh(MeshConfig(), jax.local_devices()[:1])
    drawn = {"one device": drawn_on(one)}
    for sizes in meshes:
        mesh = make_mesh(MeshConfig(**sizes))
        drawn[str(sizes)] = drawn_on(mesh)
    drawn["paged"] = drawn_on(mesh, paged=True)  # on the last mesh
    print(json.dumps(drawn))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), *sys.argv[2:])
