"""Run by tests in processes of their own, as libtpu wants: compiles for TPUs that are not here, and prints JSON.

Arguments: `flash`, `gradients` or `matrix`, the function, and its own.
"""

import json
import os
import re
import sys
from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, MeshConfig, load
from codea1_jax.learn.phases import gradient_options
from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import REMAT_POLICIES, Linear
from codea1_jax.models.gathers import embed
from codea1_jax.models.sharding import batch_sharding, jit_on, make_mesh
from codea1_jax.plan.compiler import ENVIRONMENT
from codea1_jax.plan.hlo import find_collectives
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.programs import make_programs
from codea1_jax.plan.worker import devices_of
from codea1_jax.runtime.layout import spec

# --- flash kernels ------------------------------------------------------------------------------------------

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


def flash(*topologies):
    """How often each kernel is in the gradient of two layers of only attention, for one device of each kind, and shapes
    with an axis for every pair of places: [[topology, {kernel: count}, [shape, ...]], ...].
    """
    found = []
    for topology in topologies:
        text = compiled(topology)
        kernels = KERNEL.findall(text)
        counts = {kernel: kernels.count(kernel) for kernel in sorted(set(kernels))}
        found.append([topology, counts, sorted(set(PAIRS.findall(text)))])
    return found


# --- programs of presets ------------------------------------------------------------------------------------

SCATTER = re.compile(r"= (b?f\d+)\[([\d,]*)\]\S* scatter\((.*)")
# The smallest topology that libtpu describes, and the name of one chip of it.
SMALLEST = {"v5e": ("v5e:2x2", "v5e:1x1"), "v5p": ("v5p:2x2x1", "v5p:1x1x1"), "v6e": ("v6e:2x2", "v6e:1x1")}


def lowered(name):
    preset, phase, kind = re.fullmatch(r"([^=]+)=([^@]+)@?(.*)", name).groups()
    topology, one = SMALLEST[kind] if kind else (load(Config, preset).hardware,) * 2
    devices = devices_of(find_hardware(topology))
    config, hardware = load(Config, preset), find_hardware(one)
    mesh = make_mesh(config.mesh, devices[: hardware.devices])
    programs = make_programs(make_planned_run(config, hardware), mesh)
    return next(program for program in programs if str(program.name) == phase).lower()


def scatters(text):
    """Of a compiled program."""
    found = {
        (dtype, tuple(int(size) for size in sizes.split(",") if size), "unique_indices=true" in rest)
        for dtype, sizes, rest in SCATTER.findall(text)
    }
    return sorted(found)


def gradients(*names):
    """Which floats programs of presets write by number: {program: [[type, [sizes], whether numbers differ], ...]}.

    names: PRESET=PHASE for the preset's own hardware, or PRESET=PHASE@KIND for one device of that kind.
    """
    jax.config.update("jax_disable_most_optimizations", False)  # unlike tests
    return {name: scatters(lowered(name).compile().as_text()) for name in names}


# --- a feed-forward's matrix and an embedding ---------------------------------------------------------------

WIDTH, VOCAB = 1536, 32_768
ANY_SCATTER = re.compile(r"= (\w+)\[\S* scatter\(.*?(unique_indices=true|$)", re.MULTILINE)


def placed_on(mesh, shape, dtype, *axes):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec(*axes)))


def matrix(inner, tokens):
    """What a chip of sixteen exchanges where a feed-forward's matrix meets a batch, and what an embedding's gradient is
    made by.

    kinds: of the collectives of the product, the matrix being split over `fsdp`. hidden: in the gradient of three
    products, the matrix being split over `tensor` as well, how many of the three sums of activations over `tensor` the
    chip computes meanwhile. embedding: the bytes that are received at most at once, and the scatters.
    """
    inner, tokens = int(inner), int(tokens)
    linear = Linear(inner, ("embed", "mlp"), jnp.dtype("bfloat16"), jnp.dtype("float32"))
    devices = devices_of(find_hardware("v5e:4x4"))

    def multiply(kernel, x):
        return linear.apply({"params": {"kernel": kernel}}, x)

    def twice(kernel, x):
        return multiply(kernel, multiply(kernel, x) @ kernel.T.astype(x.dtype))  # the first sum; the others in `back`

    def gradients(kernel, x):
        y, back = jax.vjp(twice, kernel, x)
        return back(y)

    def collectives(function, options=None, **axes):
        mesh = make_mesh(MeshConfig(**axes), devices)
        placed = partial(placed_on, mesh)
        kernel = placed((WIDTH, inner), jnp.float32, "embed", "mlp")
        x = placed((mesh.shape["fsdp"], tokens, WIDTH), jnp.bfloat16, "batch", "time", "width")
        out = None if function is multiply else (kernel.sharding, x.sharding)
        jitted = jit_on(mesh, function, out_shardings=out, compiler_options=options)
        return find_collectives(jitted.lower(kernel, x).compile().as_text())

    def hidden_sums(options):
        found = collectives(gradients, options, fsdp=4, tensor=4)
        return sum(each.hidden for each in found if each.kind == "all-reduce" and each.size == 2 * tokens * WIDTH)

    def embedding():
        mesh = make_mesh(MeshConfig(fsdp=16), devices)
        placed = partial(placed_on, mesh)

        def gradient(table, tokens, gradients):
            return jax.vjp(lambda table: embed(table, tokens, jnp.bfloat16), table)[1](gradients)[0]

        table = placed((VOCAB, WIDTH), jnp.float32, "vocab", "embed")
        tokens = placed((16, 1024), jnp.int32, "batch", "time")
        gradients = placed((16, 1024, WIDTH), jnp.bfloat16, "batch", "time", "width")
        text = jit_on(mesh, gradient, out_shardings=table.sharding).lower(table, tokens, gradients).compile().as_text()
        received = max(each.received for each in find_collectives(text))
        return {"received": received, "scatters": sorted(set(ANY_SCATTER.findall(text)))}

    return {
        "kinds": sorted({collective.kind for collective in collectives(multiply, fsdp=16)}),
        "hidden": hidden_sums(gradient_options(devices[0].device_kind, tensor=4)),
        "embedding": embedding(),
    }


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    jax.config.update("jax_enable_compilation_cache", False)
    functions = {"flash": flash, "gradients": gradients, "matrix": matrix}
    print(json.dumps(functions[sys.argv[1]](*sys.argv[2:])))
