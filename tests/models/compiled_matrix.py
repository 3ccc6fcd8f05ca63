"""Run by test_sharding.py in a process of its own, as libtpu wants: prints the kinds of the collectives that a chip of
sixteen takes part in where a feed-forward's matrix, split over `fsdp`, meets a batch, as one JSON line
{"kinds": [...]}.
"""

import json
import os

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from codea1_jax.config import MeshConfig
from codea1_jax.models.chips import find_hardware
from codea1_jax.models.layout import spec, using
from codea1_jax.models.qwen2 import Linear
from codea1_jax.models.sharding import make_mesh
from codea1_jax.plan.compiled.collectives import find_collectives
from codea1_jax.plan.compiled.compiler import ENVIRONMENT
from codea1_jax.plan.compiled.worker import devices_of

WIDTH, INNER, TOKENS = 1536, 8960, 12_288


def main():
    os.environ.update(ENVIRONMENT)
    jax.config.update("jax_enable_compilation_cache", False)
    linear = Linear(INNER, ("embed", "mlp"), jnp.dtype("bfloat16"), jnp.dtype("float32"))
    devices = devices_of(find_hardware("v5e:4x4"))
    mesh = make_mesh(MeshConfig(fsdp=16), devices)

    def placed(shape, dtype, *axes):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec(*axes)))

    kernel = placed((WIDTH, INNER), jnp.float32, "embed", "mlp")
    x = placed((16, TOKENS, WIDTH), jnp.bfloat16, "batch", "time", "width")

    @jax.jit
    def multiply(kernel, x):
        with using(mesh):
            return linear.apply({"params": {"kernel": kernel}}, x)

    text = multiply.lower(kernel, x).compile().as_text()
    print(json.dumps({"kinds": sorted({collective.kind for collective in find_collectives(text)})}))


if __name__ == "__main__":
    main()
