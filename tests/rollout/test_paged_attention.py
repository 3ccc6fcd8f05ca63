"""The kernels for caches in pages equal a softmax over gathered pages, on TPU and on GPU."""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.pallas.mosaic.interpret import interpret_pallas_call  # the only place that tells of races
from jax.experimental.pallas import tpu as pltpu

from codea1_jax.models.attention.sight import MASKED
from codea1_jax.rollout import paged_gpu, paged_tpu

BOTH = pytest.mark.parametrize("kernel", [paged_tpu, paged_gpu], ids=["tpu", "gpu"])


def also(*values):
    """More of the same, which the quick suite leaves out."""
    return (pytest.param(value, marks=pytest.mark.long) for value in values)


HUGE = 1e30  # what a stale token or table entry may hold


class Sizes(NamedTuple):
    """With these, a tile's table holds three chunks of the TPU kernel, the last of them short."""

    tiles: int = 6
    kv_heads: int = 2
    queries: int = 6
    head_dim: int = 16
    page: int = 64
    columns: int = 20
    pages: int = 45


USUAL = Sizes()
ODD = Sizes(tiles=4, kv_heads=3, queries=17, head_dim=32, page=24, columns=50, pages=70)


class Case(NamedTuple):
    q: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    tables: np.ndarray
    lengths: np.ndarray


def case(lengths, sizes=USUAL, seed=0):
    """Tiles of these lengths, which share pages by chance; nothing that lies beyond a length may matter."""
    random = np.random.default_rng(seed)
    lengths = np.array(lengths, np.int32)
    store = (sizes.pages, sizes.kv_heads, sizes.page, sizes.head_dim)
    q = 3 * random.standard_normal((sizes.tiles, sizes.kv_heads, sizes.queries, sizes.head_dim))
    keys, values = random.standard_normal(store), random.standard_normal(store)
    tables = random.integers(0, sizes.pages, (sizes.tiles, sizes.columns)).astype(np.int32)
    used = np.zeros(sizes.pages, int)
    for table, length in zip(tables, lengths, strict=True):
        whole, rest = divmod(length, sizes.page)
        used[table[:whole]] = sizes.page
        if rest:
            used[table[whole]] = max(used[table[whole]], rest)
        table[whole + (rest > 0) :] = random.choice([-7, 10**9])
    stale = used[:, None, None, None] <= np.arange(sizes.page)[:, None]
    return Case(q, np.where(stale, HUGE, keys), np.where(stale, -HUGE, values), tables, lengths)


def reference(case):
    """In float64, one tile after another."""
    mixed, normalizers = np.zeros(case.q.shape), np.full(case.q.shape[:3], MASKED)
    page = case.keys.shape[2]
    for tile, length in enumerate(case.lengths):
        if length:
            own = case.tables[tile, : -(-length // page)]
            k, v = (np.concatenate(store[own], axis=1)[:, :length] for store in (case.keys, case.values))
            scores = case.q[tile] @ k.swapaxes(1, 2) / np.sqrt(k.shape[-1])
            top = scores.max(axis=-1, keepdims=True)
            total = np.exp(scores - top).sum(axis=-1, keepdims=True)
            mixed[tile] = np.exp(scores - top) / total @ v
            normalizers[tile] = (top + np.log(total))[..., 0]
    return mixed, normalizers


@cache
def compiled(kernel, interpret=True):
    @jax.jit
    def attend(q, keys, values, tables, lengths):
        work = kernel.work_of(tables, lengths, keys.shape[2])
        return kernel.paged_attention(q, keys, values, work, interpret=interpret)

    return attend


def check(kernel, case, dtype=jnp.float32, tolerance=1e-5, interpret=True):
    stored = [jnp.asarray(x, dtype) for x in case[:3]]
    rounded = [np.asarray(x, np.float64) for x in stored]
    mixed, normalizers = compiled(kernel, interpret)(*stored, *case[3:])
    assert mixed.dtype == normalizers.dtype == jnp.float32
    expected, expected_normalizers = reference(Case(*rounded, *case[3:]))
    np.testing.assert_allclose(mixed, expected, atol=tolerance)
    np.testing.assert_allclose(normalizers, expected_normalizers, rtol=1e-6, atol=1e-5)
    empty = case.lengths == 0
    assert not np.any(np.asarray(mixed)[empty]) and np.all(np.asarray(normalizers)[empty] == MASKED)


@BOTH
@pytest.mark.parametrize("seed", [0, *also(1, 2)])
def test_it_equals_the_reference_at_any_lengths(kernel, seed):
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 20 * 64 + 1, 6) * (random.random(6) > 0.2)
    check(kernel, case(lengths, seed=seed))


@BOTH
@pytest.mark.parametrize(
    "lengths",
    [
        (511, 512, 513, 1023, 1024, 1025),  # a chunk of the TPU kernel has 512
        (0, 0, 700, 0, 64, 1),
        (0, 0, 0, 0, 0, 0),
        *also((1, 63, 64, 65, 128, 2), (1280, 1279, 1280, 1280, 1216, 1217), (512, 0, 0, 0, 0, 0)),
    ],
    ids=["chunks", "some empty", "none", "pages", "full", "one"],
)
def test_lengths_may_end_anywhere(kernel, lengths):
    check(kernel, case(lengths))


@BOTH
def test_sizes_need_not_be_powers_of_two(kernel):
    check(kernel, case((1200, 0, 505, 23), ODD))


@BOTH
def test_in_half_precision_only_weights_are_rounded(kernel):
    check(kernel, case((1280, 1, 513, 0, 64, 700)), jnp.bfloat16, tolerance=0.02)


@BOTH
def test_there_may_be_no_pages_to_look_at(kernel):
    sizes = Sizes(tiles=2, columns=0)
    check(kernel, case((0, 0), sizes))


@pytest.mark.parametrize("cores", [2, *also(1)])
@pytest.mark.parametrize("lengths", [(1280, 513, 0, 700, 64, 65), *also((1280, 0, 0, 0, 0, 0), (0,) * 6)])
def test_on_tpu_nothing_is_read_before_it_has_arrived(lengths, cores):
    """Here a copy is made when it is waited for, and what is not written yet is NaN."""
    late = pltpu.InterpretParams(dma_execution_mode="on_wait", uninitialized_memory="nan", num_cores_or_threads=cores)
    check(paged_tpu, case(lengths), interpret=late)


@pytest.mark.parametrize(
    "lengths", [(1280, 513, 0, 700, 64, 65), *also((1280, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1280), (0,) * 6)]
)
def test_on_tpu_two_cores_never_write_to_the_same_tile(lengths):
    check(paged_tpu, case(lengths), interpret=pltpu.InterpretParams(detect_races=True, num_cores_or_threads=2))
    assert not interpret_pallas_call.races.races_found


def test_on_tpu_parts_need_not_begin_where_a_window_of_page_numbers_does():
    sizes = Sizes(tiles=50, kv_heads=1, queries=2, page=512, columns=3, pages=90)
    random = np.random.default_rng(1)
    many = case(random.integers(512, 3 * 512 + 1, 50), sizes)
    items = -(-many.lengths // 512)
    bounds = paged_tpu.work_of(jnp.asarray(many.tables), jnp.asarray(many.lengths), 512).bounds
    assert items.sum() > paged_tpu.WINDOW and int(bounds[1]) % paged_tpu.WINDOW > 0
    check(paged_tpu, many, interpret=pltpu.InterpretParams(num_cores_or_threads=2))


@BOTH
@pytest.mark.parametrize("head_dim", [24, *also(6, 96)])
def test_pages_are_as_wide_as_the_kernel_needs_them(kernel, head_dim):
    narrow = case((1280, 1, 513, 0, 64, 700), Sizes(head_dim=head_dim))
    padding = ((0, 0),) * 3 + ((0, kernel.width(head_dim) - head_dim),)
    wide = narrow._replace(keys=np.pad(narrow.keys, padding), values=np.pad(narrow.values, padding))
    found = compiled(kernel)(*(jnp.asarray(x, jnp.float32) for x in wide[:3]), *wide[3:])
    for ours, expected in zip(found, reference(narrow), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-5)


def test_on_gpu_pages_are_as_wide_as_powers_of_two():
    assert [paged_gpu.width(head_dim) for head_dim in (6, 16, 24, 64, 96, 128, 129)] == [16, 16, 32, 64, 128, 128, 256]


@BOTH
@pytest.mark.parametrize("queries", [65, *also(64, 200)])
def test_any_number_of_queries_may_share_a_prompt(kernel, queries, monkeypatch):
    monkeypatch.setattr(paged_tpu, "MOST_QUERIES", 64)  # as on a GPU
    check(kernel, case((1280, 0, 513), Sizes(tiles=3, queries=queries, kv_heads=1)))


def test_on_gpu_no_program_has_more_queries_than_its_registers_and_shared_memory_hold():
    shape = jax.ShapeDtypeStruct

    def largest_program(queries, head_dim=128, dtype=jnp.bfloat16):
        traced = jax.make_jaxpr(paged_gpu.paged_attention)(
            shape((4, 2, queries, head_dim), dtype),
            *[shape((40, 2, 32, head_dim), dtype)] * 2,
            paged_gpu.Work(shape((4, 9), jnp.int32), shape((4,), jnp.int32)),
        )
        (call,) = (equation for equation in traced.eqns if equation.primitive.name == "pallas_call")
        return call.params["jaxpr"].invars[4].aval.shape

    assert [largest_program(queries) for queries in (6, 48, 192, 1200)] == [(16, 128), *[(64, 128)] * 3]
    assert largest_program(192, dtype=jnp.float32) == (32, 128) and largest_program(192, 256) == (32, 256)
    assert largest_program(6, 512, jnp.float32) == (16, 512)


def test_on_tpu_only_chunks_that_exist_are_worked_through():
    lengths = np.array([0, 1, 512, 513, 0, 1280], np.int32)
    tables = np.arange(6 * 20, dtype=np.int32).reshape(6, 20)
    work = jax.jit(partial(paged_tpu.work_of, page_size=64))(tables, lengths)
    count = 7
    assert work.bounds.tolist() == [0, 4, 7] and work.first.tolist() == [0, 4]
    assert work.tile[:count].tolist() == [1, 2, 3, 3, 5, 5, 5]
    assert work.start[:count].tolist() == [0, 0, 0, 512, 0, 512, 1024]
    pages = np.asarray(work.pages).reshape(-1, 512 // 64)[:count]
    assert pages[:, 0].tolist() == [20, 40, 60, 68, 100, 108, 116]
    assert pages[5].tolist() == list(range(108, 116))
