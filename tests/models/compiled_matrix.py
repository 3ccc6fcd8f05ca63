"""Run by test_sharding.py in a process of its own, as libtpu wants: prints what a chip of sixteen exchanges where a
feed-forward's matrix meets a batch, and what the gradient of an embedding is made by, as one JSON line {"kinds": [...],
"hidden": {...}, "embedding": {...}}.

kinds: of the collectives of the product, the matrix being split over `fsdp`. hidden: in the gradient of three products,
the matrix being split over `tensor` as well, how many of the three sums of activations over `tensor` the chip computes
meanwhile.
embedding: the bytes that are received at most at once, and the scatters.

Arguments: the feed-forward's size, the tokens of a row.
"""

import json
import os
import re
import sys

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import MeshConfig
from codea1_jax.models.compiling import gradient_options
from codea1_jax.models.decoder import Linear
from codea1_jax.models.gathers import embed
from codea1_jax.models.sharding import jit_on, make_mesh
from codea1_jax.plan.compiler import ENVIRONMENT
from codea1_jax.plan.hlo import find_collectives
from codea1_jax.plan.worker import devices_of
from codea1_jax.runtime.layout import spec

WIDTH, VOCAB = 1536, 32_768
SCATTER = re.compile(r"= (\w+)\[\S* scatter\(.*?(unique_indices=true|$)", re.MULTILINE)


def main(inner, tokens):
    os.environ.update(ENVIRONMENT)
    jax.config.update("jax_enable_compilation_cache", False)
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

        def placed(shape, dtype, *axes):
            return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec(*axes)))

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

        def placed(shape, dtype, *axes):
            return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec(*axes)))

        def gradient(table, tokens, gradients):
            return jax.vjp(lambda table: embed(table, tokens, jnp.bfloat16), table)[1](gradients)[0]

        table = placed((VOCAB, WIDTH), jnp.float32, "vocab", "embed")
        tokens = placed((16, 1024), jnp.int32, "batch", "time")
        gradients = placed((16, 1024, WIDTH), jnp.bfloat16, "batch", "time", "width")
        text = jit_on(mesh, gradient, out_shardings=table.sharding).lower(table, tokens, gradients).compile().as_text()
        received = max(each.received for each in find_collectives(text))
        return {"received": received, "scatters": sorted(set(SCATTER.findall(text)))}

    answer = {
        "kinds": sorted({collective.kind for collective in collectives(multiply, fsdp=16)}),
        "hidden": hidden_sums(gradient_options(devices[0].device_kind, tensor=4)),
        "embedding": embedding(),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
