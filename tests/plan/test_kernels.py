"""What kernels cost, against XLA's own analysis and against programs written out here."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from xla_flags import known_flags

from codea1_jax.common.chips import find_hardware
from codea1_jax.plan.assumptions import EFFICIENCY
from codea1_jax.plan.kernels import Kernel, expected_seconds, find_kernels


def shape(*sizes):
    return jax.ShapeDtypeStruct(sizes, jnp.float32)


@pytest.mark.parametrize(
    ("function", "arguments", "products"),
    [
        (lambda x, w: x @ w, (shape(64, 256), shape(256, 512)), 2 * 64 * 256 * 512),
        (lambda x, w: jnp.tanh(x @ w) @ w.T, (shape(64, 256), shape(256, 512)), 4 * 64 * 256 * 512),
        (lambda x, w: jnp.einsum("bij,bjk->bik", x, w), (shape(7, 16, 32), shape(7, 32, 8)), 2 * 7 * 16 * 32 * 8),
        (lambda x, w: jnp.exp(x) + w, (shape(1000), shape(1000)), 0),
    ],
    ids=["a product", "two products", "a batch of products", "no product"],
)
def test_flops_are_those_of_the_products_and_bytes_those_that_xla_counts(function, arguments, products):
    as_in_training: dict[str, int | bool] = {"xla_backend_optimization_level": 2}  # not as in tests
    if known_flags("--xla_cpu_use_fusion_emitters=true"):  # since jax 0.12 there is no other way
        as_in_training["xla_cpu_use_fusion_emitters"] = True
    compiled = jax.jit(function).lower(*arguments).compile(compiler_options=as_in_training)
    kernels = list(find_kernels(compiled.as_text()))
    assert sum(kernel.flops for kernel in kernels) == products
    assert sum(kernel.bytes for kernel in kernels) == compiled.cost_analysis()["bytes accessed"]


# A loop over 28 layers, which takes a layer's matrix out of a stack, multiplies by it, and puts the result into another
# stack; attention in a kernel that XLA does not know; a copy that libtpu has estimated.
# The left operand of the product comes from outside of what is written here.
PROGRAM = Path(__file__).with_name("layers.hlo").read_text()


def test_kernels_cost_what_they_touch_as_often_as_they_run():
    matrix, stored = 64 * 32 * 2, 8 * 32 * 4
    assert list(find_kernels(PROGRAM)) == [
        Kernel("%matrix", 2 * matrix + 4, 0, None, 28),  # a layer, and which
        Kernel("%product", 8 * 64 * 2 + matrix + stored, 2 * 8 * 32 * 64, None, 28),
        Kernel("%kept", 2 * stored + 4, 0, None, 28),
        Kernel("%copy", 8, 0, 3000, 1),
        Kernel("%mixed", 0, 0, None, 1),  # what it computes depends on how rows are packed
    ]


# Two of a hundred pages are replaced, by themselves and in a fusion that also finds out which.
SCATTERS = Path(__file__).with_name("scatters.hlo").read_text()


def test_a_scatter_costs_what_it_replaces_as_it_happens_in_place():
    pages = 2 * 64 * 2
    assert list(find_kernels(SCATTERS)) == [
        Kernel("%first", 2 * pages + 2 * 4, 0, None, 1),
        Kernel("%other", 2 * pages, 0, None, 1),
    ]


def test_a_kernel_takes_its_cycles_or_what_its_bytes_or_its_flops_take():
    card, tpu = find_hardware("h100:1"), find_hardware("v5e:1x1")
    estimate = ', backend_config={"estimated_cycles":"3000"}'
    on_card, on_tpu = expected_seconds(PROGRAM.replace(estimate, ""), card), expected_seconds(PROGRAM, tpu)
    matrix, stored = 64 * 32 * 2, 8 * 32 * 4
    moved = 28 * (2 * matrix + 4 + 2 * stored + 4 + 8 * 64 * 2 + matrix + stored)  # each is bound by its bytes
    by_bytes = moved / (tpu.chip.bandwidth * EFFICIENCY["tpu"].memory)
    assert on_tpu == pytest.approx(3000 / tpu.chip.clock + by_bytes)
    by_bytes = (moved + 8) / (card.chip.bandwidth * EFFICIENCY["gpu"].memory)
    assert on_card == pytest.approx(by_bytes + (3 * 28 + 2) * EFFICIENCY["gpu"].launch)
