"""What the flash kernels compute. It depends on how rows are packed, which no compiled program says."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from codea1_jax.models.attention import choose_kernel
from codea1_jax.models.attention.flash import Kernels, kernels_for, tiled
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.flops import Number
from codea1_jax.plan.arithmetic.planned_run import PlannedRun
from codea1_jax.plan.arithmetic.workload import Phase

# Matrix products over all pairs of places that a kernel computes: forward, for the queries' gradient, and for that of
# keys and values. Both backward kernels compute scores and weights again.
FORWARD, BACKWARD = 2, 3 + 4


def kernels_of(run: PlannedRun) -> Kernels | None:
    """The flash kernels of a run; None if it uses plain XLA, whose programs say what they compute."""
    model = run.settings
    chosen = choose_kernel(model.attention, jnp.dtype(model.compute_dtype), run.model.head_dim, run.platform)
    return kernels_for(run.platform) if chosen == "flash" else None


def computed_pairs(sight: Sight, kernels: Kernels | None, batch_shards: int) -> int:
    """Pairs of places that a forward pass computes for one head, in the shard of the batch that has most of them.

    0 without flash kernels: plain XLA's programs say what they compute.
    """
    if kernels is None:
        return 0
    shards = [Sight(*one) for one in zip(*(np.split(np.asarray(ids), batch_shards) for ids in sight), strict=True)]
    block, _ = kernels.cut(sight.segments.shape[1])
    in_use = [shard for shard in shards if shard.segments.any()] or shards[:1]  # the others have fewest
    return max(kernels.computed(tiled(shard, kernels).tiles) for shard in in_use) * block**2


def attention_flops(run: PlannedRun, phase: Phase, pairs: Number) -> Number:
    """FLOPs of one device in the flash kernels of all layers; `pairs` are those of a forward pass, for one head."""
    model = run.model
    products = FORWARD + BACKWARD if phase.kind == "gradient" else FORWARD
    return 2 * products * pairs * model.head_dim * heads_of_device(run) * model.num_layers


def heads_of_device(run: PlannedRun) -> float:
    """Heads whose queries one device computes: all of them where the tensor axis does not divide them."""
    heads = run.model.num_heads
    return heads / run.tensor if heads % run.tensor == 0 else heads
