"""Run by test_compiled_flash.py in a process of its own, as libtpu wants: compiles the gradient of two layers of only
attention, for one device of each kind. Prints how often each of the flash kernels is in the program, and shapes with an
axis for every pair of places: [[topology, {kernel: count}, [shape, ...]], ...].
"""

import json
import os
import re
import sys

import jax
import jax.numpy as jnp

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import MeshConfig
from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import REMAT_POLICIES
from codea1_jax.models.sharding import batch_sharding, jit_on, make_mesh
from codea1_jax.plan.compiler import ENVIRONMENT
from codea1_jax.plan.worker import devices_of

TIME, PADDED = 1664, 2048  # no multiple of a block; with the padding it gets
KERNEL = re.compile(r"%\S*(flash_forward|flash_backward_kv|flash_backward_q)\S* = .* custom-call\(")
PAIRS = re.compile(rf"\w+\[[\d,]*\b(?:{TIME}|{PADDED}),(?:\d+,)*(?:{TIME}|{PADDED})\b[\d,]*\]")


def loss(x, segments, parents):
    """The heads of x are queries, and two each of them keys and values."""
    attend = training_attention(Sight(segments, parents), "flash")

    def layer(x, _):
        return attend(x, x[:, :, :2], x[:, :, 2:], None)[0], None

    remembered = jax.checkpoint(layer, policy=REMAT_POLICIES["full"], prevent_cse=False)
    return jnp.sum(jax.lax.scan(remembered, x, None, length=2)[0].astype(jnp.float32))


def compiled(topology):
    devices = devices_of(find_hardware(topology))
    mesh = make_mesh(MeshConfig(), devices[:1])
    here = batch_sharding(mesh)
    x = jax.ShapeDtypeStruct((1, TIME, 4, 128), jnp.bfloat16, sharding=here)
    ids = jax.ShapeDtypeStruct((1, TIME), jnp.int32, sharding=here)
    return jit_on(mesh, jax.grad(loss), out_shardings=here).lower(x, ids, ids).compile().as_text()


def main():
    os.environ.update(ENVIRONMENT)
    jax.config.update("jax_enable_compilation_cache", False)
    found = []
    for topology in sys.argv[1:]:
        text = compiled(topology)
        kernels = KERNEL.findall(text)
        counts = {kernel: kernels.count(kernel) for kernel in sorted(set(kernels))}
        found.append([topology, counts, sorted(set(PAIRS.findall(text)))])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
