"""A loop around a kernel for caches in pages, as decoding has it, for compilers of absent devices.

Run as a script, with topologies as arguments, it prints one JSON line {topology: [[kernels, copies of a store] of each
of `SIZES`]} as libtpu compiles the loop, or of another of `SETS` if its name comes first. libtpu wants its own process.
"""

import json
import os
import sys
from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import MeshConfig
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.compiler import ENVIRONMENT
from codea1_jax.plan.hlo import parse
from codea1_jax.plan.worker import devices_of
from codea1_jax.rollout import paged_tpu
from codea1_jax.runtime.layout import using

PAGES = 4001  # no other axis is as long
PAGE = 32
SIZES = (
    {"kv_heads": 2, "group": 8, "head_dim": 128},
    {"kv_heads": 1, "group": 7, "head_dim": 64, "width": 128},
    {"kv_heads": 2, "group": 8, "head_dim": 128, "samples": 200},
)
KERNELS = (2, 2, 5)  # of 200 samples, four for a prompt
EVALUATED = tuple(
    {"kv_heads": kv_heads, "group": 8, "head_dim": 128, "samples": samples}
    for kv_heads in (2, 4)
    for samples in (1, 32, 200)
)
EVALUATED_KERNELS = (2, 2, 5, 2, 2, 8)
SETS = {"sizes": SIZES, "evaluated": EVALUATED}
# What may have a store among its results and does not write it.
PASSED_ON = {"parameter", "tuple", "get-tuple-element", "while", "bitcast", "opt-barrier"}


def decode(kernel, prompts, rows, keys, values):
    """Looks at every prompt's pages and at every row's, step after step. prompts, rows: (queries, tables, lengths)."""
    works = [kernel.work_of(tables, lengths, PAGE) for _, tables, lengths in (prompts, rows)]

    def step(progress):
        found = [kernel.paged_attention(q, keys, values, work) for q, work in zip(progress[1:], works, strict=True)]
        following = [
            mixed.astype(q.dtype) * normalizers[..., None].astype(q.dtype)
            for q, (mixed, normalizers) in zip(progress[1:], found, strict=True)
        ]
        return progress[0] + 1, *following

    return jax.lax.while_loop(lambda progress: progress[0] < prompts[2][0], step, (0, prompts[0], rows[0]))


def compile_for(device, kernel, *, kv_heads, group, head_dim, width=None, samples=8):
    """The program's text: 32 prompts of that many samples each, and 256 rows."""
    mesh = make_mesh(MeshConfig(), [device])
    whole = NamedSharding(mesh, PartitionSpec())
    integers, numbers = (
        partial(lambda dtype, *shape: jax.ShapeDtypeStruct(shape, dtype, sharding=whole), jnp.dtype(name))
        for name in ("int32", "bfloat16")
    )
    prompts = numbers(32, kv_heads, samples * group, head_dim), integers(32, 256), integers(32)
    rows = numbers(256, kv_heads, group, head_dim), integers(256, 128), integers(256)
    store = numbers(PAGES, kv_heads, PAGE, width or head_dim)

    @jax.jit
    def program(*arguments):
        with using(mesh):
            run = jax.shard_map(
                partial(decode, kernel), in_specs=PartitionSpec(), out_specs=PartitionSpec(), check_vma=False
            )
            return run(*arguments)

    return program.lower(prompts, rows, store, store).compile().as_text()


def kernels_and_copies(text):
    """How many Pallas kernels a program calls, and what else it makes a store with."""
    lines = [line for computation in parse(text).computations.values() for line in computation]
    kernels = sum("tpu_custom_call" in line.text or "__gpu$xla.gpu.triton" in line.text for line in lines)
    made = {line.operation for line in lines if f"[{PAGES}," in line.shape}
    return kernels, sorted(made - PASSED_ON)


def main(all_sizes, topologies):
    os.environ.update(ENVIRONMENT)
    jax.config.update("jax_enable_compilation_cache", False)
    found = {}
    for topology in topologies:
        devices = devices_of(find_hardware(topology))
        texts = [compile_for(devices[0], paged_tpu, **sizes) for sizes in all_sizes]
        found[topology] = list(map(kernels_and_copies, texts))
    print(json.dumps(found))


if __name__ == "__main__":
    sizes, *topologies = sys.argv[1:] if sys.argv[1] in SETS else ("sizes", *sys.argv[1:])
    main(SETS[sizes], topologies)
