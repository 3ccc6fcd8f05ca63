"""What devices receive, read from programs: one written out here, and one that the TPU compiler makes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codea1_jax.plan.compiler import ENVIRONMENT
from codea1_jax.plan.hlo import Collective, UnreadableProgram, find_collectives, received_bytes

# A loop of 5 turns, in which a gather is spread over two fusions and a reduction is cut at once; one of 8 that is
# unrolled twice, where a permutation is waited for at once; and a gather outside of them, behind a fusion.
PROGRAM = Path(__file__).with_name("collectives.hlo").read_text()


def test_loops_multiply_and_spread_out_collectives_count_once():
    assert find_collectives(PROGRAM) == [
        Collective("all-gather", size=4 * 64 * 2, group=4, times=5, hidden=True),
        Collective("reduce-scatter", size=400, group=4, times=5, hidden=True),
        Collective("collective-permute", size=6, group=2, times=4, hidden=False),  # it is waited for at once
        Collective("all-gather", size=80, group=2, times=1, hidden=True),
    ]
    assert received_bytes(PROGRAM) == 5 * 512 * 3 / 4 + 40 + 5 * 400 * 3 / 4 + 4 * 6


def test_a_loop_without_a_limit_is_no_guess():
    with pytest.raises(UnreadableProgram, match=r"condition\.five"):
        find_collectives(PROGRAM.replace("constant(5)", "parameter(5)"))


COMPILE = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from codea1_jax.plan.hlo import received_bytes

devices = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices
mesh = Mesh(np.array(devices), ("x",))

def layers(x, ws):
    def layer(x, w):
        return jnp.tanh(x @ jax.lax.with_sharding_constraint(w, NamedSharding(mesh, P()))), None
    return jax.lax.scan(layer, x, ws)[0]

x = jax.ShapeDtypeStruct((64, 1024), jnp.bfloat16, sharding=NamedSharding(mesh, P("x")))
ws = jax.ShapeDtypeStruct((5, 1024, 1024), jnp.bfloat16, sharding=NamedSharding(mesh, P(None, "x")))
print(json.dumps(received_bytes(jax.jit(layers).lower(x, ws).compile().as_text())))
"""


def test_five_gathered_matrices_are_received_by_three_quarters():
    environment = os.environ | ENVIRONMENT
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == 5 * 1024 * 1024 * 2 * 3 / 4
