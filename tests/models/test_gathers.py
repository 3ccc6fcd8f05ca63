"""Rows that are taken by number have exact gradients, which no backend sums in an order of its own."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.models.gathers import embed, sums_by_number, take_places
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.programs import make_programs

VOCAB, WIDTH = 500, 24


def zipf(random, *shape):
    """Tokens of which the first is a tenth of all, as in text."""
    return jnp.asarray(random.zipf(1.2, shape) % VOCAB, jnp.int32)


def cotangent(random, *shape):
    """In bfloat16, of a mean that is not small: sums grow, and what is rounded in each addition with them."""
    return jnp.asarray(random.normal(0.3, 1.0, shape), jnp.bfloat16)


def exact_sums(rows, numbers, size):
    sums = np.zeros((size, rows.shape[-1]))
    np.add.at(sums, np.asarray(numbers).reshape(-1), np.asarray(rows, np.float64).reshape(-1, rows.shape[-1]))
    return sums


def error(found, exact):
    """Relative to the largest of each row's numbers."""
    return (np.abs(np.asarray(found, np.float64) - exact).max(-1) / np.maximum(np.abs(exact).max(-1), 1e-9)).max()


@pytest.mark.parametrize("seed", range(3))
def test_the_embeddings_gradient_in_bfloat16_is_that_in_float64(seed):
    random = np.random.default_rng(seed)
    tokens, weights = zipf(random, 4, 700), cotangent(random, 4, 700, WIDTH)
    table = jnp.asarray(random.normal(size=(VOCAB, WIDTH)), jnp.float32)

    def gradient(rows_of):
        return jax.jit(jax.grad(lambda table: jnp.sum((rows_of(table) * weights).astype(jnp.float32))))(table)

    exact = exact_sums(weights, tokens, VOCAB)
    found = gradient(lambda table: embed(table, tokens, jnp.bfloat16))
    assert found.dtype == jnp.float32
    assert error(found, exact) < 1e-5
    assert error(gradient(lambda table: table.astype(jnp.bfloat16)[tokens]), exact) > 1e-3  # JAX's own
    np.testing.assert_array_equal(embed(table, tokens, jnp.bfloat16), table.astype(jnp.bfloat16)[tokens])


def test_the_gradient_of_a_place_that_many_targets_share_is_summed_before_it_is_rounded():
    random = np.random.default_rng(0)
    x = jnp.asarray(random.normal(size=(3, 40, WIDTH)), jnp.bfloat16)
    places = jnp.asarray(np.minimum(random.integers(0, 400, (3, 300)), 39), jnp.int32)  # the last is nine in ten
    weights = cotangent(random, 3, 300, WIDTH)
    taken, back = jax.vjp(lambda x: take_places(x, places), x)
    (found,) = back(weights)
    np.testing.assert_array_equal(taken, np.take_along_axis(np.asarray(x), np.asarray(places)[..., None], axis=1))
    assert found.dtype == x.dtype
    for row in range(3):
        assert error(found[row], exact_sums(weights[row], places[row], 40)) < 2**-8  # it is rounded once


@pytest.mark.parametrize(("count", "size"), [(1, 3), (2, 1), (7, 7), (640, 1), (640, 3), (1000, 40), (300, 1000)])
def test_sums_are_those_of_each_number_and_leave_out_what_is_out_of_range(count, size):
    random = np.random.default_rng(count)
    rows, numbers = random.integers(-9, 10, (count, 4)), random.integers(-3, size + 3, count)
    numbers = np.where(random.random(count) < 0.4, size // 2, numbers)  # runs may be longer than some blocks
    kept = (numbers >= 0) & (numbers < size)
    arguments = jnp.asarray(rows, jnp.float32), jnp.asarray(numbers, jnp.int32)
    found, sums = jax.jit(partial(sums_by_number, size=size))(*arguments)
    assert len(set(found.tolist())) == len(found)
    found_sums = exact_sums(sums[found < size], found[found < size], size)
    np.testing.assert_array_equal(found_sums, exact_sums(rows[kept], numbers[kept], size))  # integers: exactly


# A scatter: whether no two of its numbers are the same, and what it does where they are.
SCATTER = re.compile(r'"stablehlo.scatter".*unique_indices = (\w+)}>.*\n.*bb0.*\n\s+(?:%\S+ = )?(stablehlo\.\w+)')


def test_no_gradient_of_a_run_adds_what_may_meet_in_one_place():
    """As a gather's own gradient does."""
    rows, numbers = jnp.zeros((5, 2)), jnp.zeros(3, jnp.int32)
    own = jax.jit(lambda rows, numbers: jax.vjp(lambda x: x[numbers], rows)[1](rows[:3])).lower(rows, numbers)
    assert SCATTER.findall(own.as_text()) == [("false", "stablehlo.add")]
    config = load(Config, "micro/a1", ["model.compute_dtype=bfloat16"])
    run = make_planned_run(config, find_hardware("h100:1"))
    programs = {str(program.name): program for program in make_programs(run, one_device_mesh())}
    found = SCATTER.findall(programs["gradient code"].lower().as_text())
    assert found and all(unique == "true" for unique, _ in found)
