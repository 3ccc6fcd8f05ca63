"""The GPU kernel for caches in pages, compiled at a real decoding's shapes for GPUs that are not here."""

import pytest
from paged_programs import compile_for, kernels_and_copies

from codea1_jax.common.chips import find_hardware
from codea1_jax.plan.cuda import absent_gpus
from codea1_jax.rollout import paged_gpu


@pytest.mark.parametrize("hardware", ["h100:8", "a100-80:8"])
@pytest.mark.parametrize(("kv_heads", "group", "head_dim"), [(2, 6, 128), (1, 7, 128), (2, 7, 64)])
def test_xla_compiles_the_kernel_and_copies_no_store(hardware, kv_heads, group, head_dim):
    gpu = absent_gpus(find_hardware(hardware))[0]
    text = compile_for(gpu, paged_gpu, kv_heads=kv_heads, group=group, head_dim=head_dim)
    assert kernels_and_copies(text) == (2, [])
