"""What devices receive, read from programs: one written out here, and one that the TPU compiler makes."""

import json
import os
import subprocess
import sys

import pytest

from codea1_jax.plan.compiler import ENVIRONMENT
from codea1_jax.plan.hlo import Collective, UnreadableProgram, find_collectives, received_bytes

# A loop of 5 turns, in which a gather is spread over two fusions and a reduction is cut at once; one of 8 that is
# unrolled twice, where a permutation is waited for at once; and a gather outside of them, behind a fusion.
PROGRAM = """
HloModule jit_f, is_scheduled=true

%sum (a: f32[], b: f32[]) -> f32[] {
  ROOT %c = f32[] add(%a, %b)
}

%gather.start (p: bf16[1,64]) -> bf16[4,64] {
  %p = bf16[1,64]{1,0:T(8,128)} parameter(0)
  ROOT %all-gather.1 = bf16[4,64]{1,0:T(8,128)(2,1)S(1)} all-gather(%p), channel_id=7, replica_groups=[2,4]<=[8]
}

%gather.done (p.1: bf16[1,64]) -> bf16[4,64] {
  %p.1 = bf16[1,64]{1,0} parameter(0)
  ROOT %all-gather.2 = bf16[4,64]{1,0} all-gather(%p.1), channel_id=7, replica_groups=[2,4]<=[8], dimensions={0}
}

%all-reduce-scatter.3 (p.2: f32[100]) -> f32[25] {
  %p.2 = f32[100]{0} parameter(0)
  %r = f32[100]{0} all-reduce(%p.2), channel_id=8, replica_groups=mesh['a'=2,'b'=4], device_ids=([8]) {'b'}
  ROOT %cut = f32[25]{0} dynamic-slice(%r), dynamic_slice_sizes={25}
}

%body.five (c: (s32[], bf16[1,64])) -> (s32[], bf16[1,64]) {
  %c = (s32[], bf16[1,64]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %f1 = bf16[4,64]{1,0} fusion(%x), kind=kCustom, calls=%gather.start
  %f2 = bf16[4,64]{1,0} fusion(%x), kind=kCustom, calls=%gather.done
  %f3 = f32[25]{0} fusion(%y), kind=kCustom, calls=%all-reduce-scatter.3
  ROOT %t = (s32[], bf16[1,64]{1,0}) tuple(%next, %x)
}

%condition.five (c.1: (s32[], bf16[1,64])) -> pred[] {
  %five = s32[]{:T(128)} constant(5)
  %i.1 = s32[]{:T(128)} get-tuple-element(%c.1), index=0
  ROOT %lt = pred[] compare(%i.1, %five), direction=LT
}

%body.eight (c.2: (bf16[3], u32[])) -> (bf16[3], u32[]) {
  %two = u32[]{:T(128)} constant(2)
  %i.2 = u32[] get-tuple-element(%c.2), index=1
  %cp = (bf16[3]{0}, bf16[3]{0}, u32[]) collective-permute-start(%z), channel_id=9, source_target_pairs={{0,1}}
  %cpd = bf16[3]{0} collective-permute-done(%cp)
  %next.2 = u32[] add(%i.2, %two)
  ROOT %t.2 = (bf16[3]{0}, u32[]) tuple(%cpd, /*index=1*/%next.2)
}

%condition.eight (c.3: (bf16[3], u32[])) -> pred[] {
  %eight = u32[] constant(8)
  %i.3 = u32[] get-tuple-element(%c.3), index=1
  ROOT %lt.3 = pred[] compare(%i.3, %eight), direction=LT
}

ENTRY %main (x: bf16[1,64]) -> bf16[1,64] {
  %x = bf16[1,64]{1,0} parameter(0)
  %w = (s32[], bf16[1,64]{1,0}) while(%t.0), condition=%condition.five, body=%body.five
  %w2 = (bf16[3]{0}, u32[]) while(%t.1), condition=%condition.eight, body=%body.eight
  %ag = (f32[10]{0}, f32[20]{0}) all-gather-start(%v), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}
  %f4 = f32[9]{0} fusion(%v), kind=kLoop, calls=%sum
  %agd = f32[20]{0} all-gather-done(%ag)
  %ar = f32[6]{0} all-reduce(%u), channel_id=2, replica_groups=[4,1]<=[4], to_apply=%sum
  ROOT %r = bf16[1,64]{1,0} get-tuple-element(%w), index=1
}
"""


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
