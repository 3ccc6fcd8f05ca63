"""Run by test_replicas.py in a process with 8 devices: an update over 8 replicas, compiled.

Prints {"micro-batch": bytes, "update": bytes, "parameters": bytes}: what each device receives in a micro-batch and in
an update, and the size of the parameters.
"""

import json

import jax
import numpy as np

from codea1_jax.config import GRPOConfig, MeshConfig, OptimizerConfig, PackingConfig
from codea1_jax.learn import GRPO, Learner, Trajectory
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer
from codea1_jax.models.sharding import init_sharded, make_mesh
from codea1_jax.plan.compiled.collectives import received_bytes

MODEL = Transformer(Architecture(64, 32, 48, 2, 8, 2, 8, rope_theta=1e4, tie_embeddings=False))


def main():
    mesh = make_mesh(MeshConfig(replica=8, fsdp=1))
    packing = PackingConfig(row_length=32, micro_batch_tokens=256)
    learner = Learner(MODEL, GRPO(GRPOConfig(kl_coef=0)), OptimizerConfig(), packing, total_steps=4, mesh=mesh)
    state = learner.init(init_sharded(MODEL, jax.random.key(1), mesh))
    groups = [[Trajectory((3, 4), (5, 6, 7), 1.0), Trajectory((3, 4), (8,), -1.0)]]
    (batch,) = learner._put(learner._pack(groups))
    empty = learner.phases.empty(state.params)
    accumulate = learner.phases.accumulate.lower(empty, state.params, batch, np.float32(4), None).compile()
    apply = learner.phases.apply.lower(state, empty.gradient).compile()
    received = {
        name: sum(received_bytes(program.as_text()).values())
        for name, program in (("micro-batch", accumulate), ("update", apply))
    }
    size = sum(x.nbytes for x in jax.tree.leaves(state.params))
    print(json.dumps(received | {"parameters": size}))


if __name__ == "__main__":
    main()
