"""`codea1 selftest`: attention's kernels against a reference, at the shapes of the presets, before a run is paid for.

They are compiled where the devices can, and interpreted at small shapes on a CPU.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from codea1_jax.common.chips import find_hardware, hardware_of
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, PackingConfig, load
from codea1_jax.learn import Example
from codea1_jax.learn.packing import pack
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.attention import flash_gpu, flash_tpu, masked_attention
from codea1_jax.models.attention.flash import flash_attention, kernels_for, tiled
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.published import QWEN25
from codea1_jax.plan.planned import read_plans
from codea1_jax.plan.planned_run import model_shape
from codea1_jax.rollout import paged_gpu, paged_tpu
from codea1_jax.rollout.cache import KeyValues
from codea1_jax.rollout.readers import Gathered, Paged, Reader, reader_for
from configs import PAPERS

SMALLEST = "micro/a1"
HALF_ERROR, FULL_ERROR = 0.03, 1e-4  # of bfloat16 against float32, and of float32
SAMPLES, EVAL_SAMPLES = 8, 32  # that share a prompt, in training and in evaluation
PAGE = 32  # tokens
FLASH_PARTS = "values", "dq", "dk", "dv"
# What broken kernels and devices raise. Anything else is a bug of ours.
_FAILURES = (jax.errors.JaxRuntimeError, FloatingPointError, ValueError, NotImplementedError, OSError, UserError)


@dataclass(frozen=True)
class Row:
    name: str
    passed: bool
    expected: str
    measured: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Check:
    name: str
    run: Callable[[], Iterable[Row]]


def perform(checks: Sequence[Check]) -> Iterator[Row]:
    """The rows of all checks in turn; a check that raises gives one row, which says why."""
    for check in checks:
        began = time.perf_counter()
        try:
            rows = list(check.run())
        except _FAILURES as error:
            reason = " ".join(str(error).split())[:200]
            rows = [Row(check.name, False, "runs", f"{type(error).__name__}: {reason}")]
        each = (time.perf_counter() - began) / max(len(rows), 1)
        yield from (replace(row, seconds=each) for row in rows)


def within(name: str, error: float, most: float) -> Row:
    return Row(name, bool(error <= most), f"error at most {most:.1g}", f"{error:.1e}")


def relative_error(measured: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(measured - expected)) / np.max(np.abs(expected)))


def default_preset() -> str:
    """The first preset that is planned for the devices at hand; the micro world's where there is none."""
    here, plans = hardware_of(jax.devices()), read_plans().plans
    return next((name for name, plan in plans.items() if find_hardware(plan.hardware).is_like(here)), SMALLEST)


def checks_for(config: Config) -> list[Check]:
    """At the shapes of the configuration and of all presets; on a CPU, interpreted, of the configuration alone."""
    device, shapes = jax.devices()[0], list(config.by_model(model_shape).values())
    smallest = model_shape(load(Config, SMALLEST).model)
    others = [] if device.platform == "cpu" else [smallest, *(QWEN25[size] for size in PAPERS)]
    return list(kernel_checks([*shapes, *others], device))


@dataclass(frozen=True)
class Sizes:
    """What the kernels are tried on. time: places of a packed row. rows: that decode. tokens: that each looks at."""

    heads: int
    kv_heads: int
    head_dim: int
    time: int
    rows: int
    tokens: int

    @property
    def group(self) -> int:
        return self.heads // self.kv_heads

    def __str__(self) -> str:
        return f"{self.heads}/{self.kv_heads} heads of {self.head_dim}"


def sizes_of(model: Architecture, *, compiled: bool) -> Sizes:
    """As in a run where kernels are compiled; as small as shows a mistake where they are interpreted."""
    heads = model.num_heads, model.num_kv_heads, model.head_dim
    if compiled:
        return Sizes(*heads, time=4096, rows=64, tokens=4096)
    return Sizes(2 * model.group_size, 2, model.head_dim, time=300, rows=3, tokens=200)


def kernel_checks(models: Sequence[Architecture], device: Any) -> Iterator[Check]:
    """Of the kernels for such devices; on a CPU of all, interpreted."""
    platform = device.platform
    compiled = platform != "cpu"
    dtype = jnp.bfloat16 if compiled else jnp.float32
    flash = [kernels_for(platform)] if compiled else [flash_gpu, flash_tpu]
    tpu = Paged(paged_tpu, paged_tpu.SUBLANES, interpret=True)
    readers = [reader_for(platform)] if compiled else [Gathered(), Paged(paged_gpu, interpret=True), tpu]
    for sizes in dict.fromkeys(sizes_of(model, compiled=compiled) for model in models):
        for module in flash:
            name = f"flash attention, {_short(module)}, {sizes}"
            yield Check(name, partial(_flash, name, module, sizes, dtype, interpret=not compiled))
        for reader in readers:
            label = _short(reader.kernel) if isinstance(reader, Paged) else "copies"
            name = f"cache in pages, {label}, {sizes}"
            yield Check(name, partial(_paged, name, reader, sizes, dtype))


def _short(kernels: Any) -> str:
    return kernels.__name__.rpartition("_")[2]


def _flash(name: str, kernels: Any, sizes: Sizes, dtype: DTypeLike, *, interpret: bool) -> Iterator[Row]:
    sight, real = _packed_row(sizes.time)
    keys = jax.random.split(jax.random.key(0), 4)
    counts = sizes.heads, sizes.kv_heads, sizes.kv_heads, sizes.heads
    shapes = [(1, sizes.time, count, sizes.head_dim) for count in counts]
    q, k, v, d_out = (jax.random.normal(key, shape, dtype) for key, shape in zip(keys, shapes, strict=True))
    d_out = jnp.where(real, d_out, 0)
    over, mask = tiled(sight, kernels), sight.mask(0, sizes.time)

    def ours(q: Any, k: Any, v: Any) -> Any:
        return jnp.where(real, flash_attention(over, q, k, v, kernels=kernels, interpret=interpret), 0)

    def reference(q: Any, k: Any, v: Any) -> Any:
        return jnp.where(real, _head_by_head(q, k, v, mask), 0)

    measured = _value_and_gradients(ours, q, k, v, d_out)
    expected = _value_and_gradients(reference, *(x.astype(jnp.float32) for x in (q, k, v, d_out)))
    most = FULL_ERROR if dtype == jnp.float32 else HALF_ERROR
    for part, ours, exact in zip(FLASH_PARTS, measured, expected, strict=True):
        error = relative_error(np.asarray(ours, np.float32), np.asarray(exact))
        yield within(f"{name}, {part}", error, most)


def _head_by_head(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """A small program of plain products, the same whatever the number of heads is."""
    group = q.shape[2] // k.shape[2]

    @jax.checkpoint
    def one(head: tuple[Any, Any, Any]) -> Any:
        q, k, v = (x[:, :, None] for x in head)
        return masked_attention(q, k, v, mask)[:, :, 0]

    heads = q, jnp.repeat(k, group, axis=2), jnp.repeat(v, group, axis=2)
    return jnp.moveaxis(jax.lax.map(one, tuple(jnp.moveaxis(x, 2, 0) for x in heads)), 0, 2)


def _value_and_gradients(mix: Any, q: Any, k: Any, v: Any, d_out: Any) -> tuple[Any, ...]:
    @jax.jit
    def both(*inputs: Any) -> tuple[Any, ...]:
        mixed, pull = jax.vjp(mix, *inputs)
        return mixed, *pull(d_out)

    with jax.default_matmul_precision("float32"):
        return both(q, k, v)


def _packed_row(time: int) -> tuple[Sight, Any]:
    """Prompts with the responses that share them, as the packer lays them out; and which places are real."""
    examples = [
        Example(range(number, number + time // 6), [0] * (time // (9 + turn)), [1.0] * (time // (9 + turn)))
        for number in range(2)
        for turn in range(3)
    ]
    batch = pack(examples, PackingConfig(row_length=time, micro_batch_tokens=time))[0]
    sight = Sight(jnp.asarray(batch.segment_ids[:1]), jnp.asarray(batch.parents[:1]))
    return sight, (sight.segments > 0)[..., None, None]


def _paged(name: str, reader: Reader, sizes: Sizes, dtype: DTypeLike) -> Iterator[Row]:
    """What rows see of their own pages, and all samples of a prompt of its pages, against a softmax in float64."""
    most = FULL_ERROR if dtype == jnp.float32 else HALF_ERROR
    tiles = {"rows": (sizes.rows, 1)}
    tiles |= {f"n = {samples}": (max(1, sizes.rows // samples), samples) for samples in (SAMPLES, EVAL_SAMPLES)}
    for which, (count, samples) in tiles.items():
        yield within(f"{name}, {which}", _paged_error(reader, sizes, dtype, count, samples), most)


def _paged_error(reader: Reader, sizes: Sizes, dtype: DTypeLike, tiles: int, samples: int) -> float:
    random = np.random.default_rng(0)
    columns = -(-sizes.tokens // PAGE)
    width = reader.width(sizes.head_dim)
    store = np.zeros((tiles * columns, sizes.kv_heads, PAGE, width), np.float32)
    store = [store.copy() for _ in range(2)]
    for pages in store:
        pages[..., : sizes.head_dim] = random.standard_normal((*pages.shape[:3], sizes.head_dim))
    queries = sizes.group * samples + -(sizes.group * samples) % reader.sublanes
    q = jnp.asarray(random.standard_normal((tiles, sizes.kv_heads, queries, sizes.head_dim)), dtype)
    tables = random.permutation(tiles * columns).reshape(tiles, columns).astype(np.int32)
    lengths = random.integers(1, columns * PAGE + 1, tiles).astype(np.int32)
    lengths[0] = columns * PAGE
    cache = (KeyValues(*(jnp.asarray(pages, dtype) for pages in store)),)

    @jax.jit
    def attend(q: Any, cache: Any, tables: Any, lengths: Any) -> Any:
        shared, layers = reader.prepare(cache, tables, lengths)
        return reader.mix(q, shared, layers[0]).values

    measured = np.asarray(attend(q, cache, tables, lengths))[..., : sizes.head_dim]
    keys, values = (np.asarray(x.astype(jnp.float32), np.float64)[..., : sizes.head_dim] for x in cache[0])
    expected = _softmax_over_pages(np.asarray(q, np.float64), keys, values, tables, lengths)
    return relative_error(measured, expected)


def _softmax_over_pages(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, tables: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """[tiles, kv_heads, queries, head_dim], tile after tile."""
    mixed = np.zeros(q.shape)
    for tile, (table, length) in enumerate(zip(tables, lengths, strict=True)):
        k, v = (np.concatenate(store[table], axis=1)[:, :length] for store in (keys, values))
        scores = q[tile] @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed[tile] = weights / weights.sum(axis=-1, keepdims=True) @ v
    return mixed
