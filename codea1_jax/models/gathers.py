"""Rows taken from an array by number, whose gradient is summed in float32, in the same order every time.

The gradient that JAX gives a gather is a scatter-add. Where numbers repeat, GPUs add what arrives first, so that no two
runs are alike, and every backend rounds each sum to the rows' own type: in bfloat16, the gradient of a frequent token
is off by several percent. So rows are sorted by number here, those of the same number are summed, and each number's
sum is written once.
"""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from codea1_jax.runtime.layout import constrain, on_shards, platform

BLOCK = 128  # rows of which one product makes the sums


def embed(
    table: Float[Array, "vocab width"], tokens: Int[Array, "batch time"], dtype: DTypeLike
) -> Float[Array, "batch time width"]:
    """The tokens' rows of a table, in `dtype`. The table's gradient is summed in float32."""
    return constrain(_rows_of(table, tokens, jnp.zeros((), dtype)), "batch", "time", "width")


@jax.custom_vjp
def _rows_of(table: Array, tokens: Array, like: Array) -> Array:
    """Every device gives what it has of the rows; only one has a row, so that their sum is exact in any type."""

    def found(vocab: Array, table: Array, tokens: Array) -> tuple[Array]:
        places = tokens - vocab[0]
        here = (places >= 0) & (places < len(vocab))
        return (jnp.where(here[..., None], table[places], 0)[None],)

    if platform() == "cpu":  # XLA would convert a whole bfloat16 table to float32, once for the loop that this is in
        table, tokens = jax.lax.optimization_barrier((table, tokens))
    arguments = jnp.arange(len(table), dtype=tokens.dtype), table.astype(like.dtype), tokens
    axes = ("vocab",), ("vocab", "width"), ("batch", "time")
    (parts,) = on_shards(found, arguments, axes, (("vocab", "batch", "time"),))
    return jax.lax.reduce(parts, jnp.zeros((), parts.dtype), jax.lax.add, (0,))


def _rows_forward(table: Array, tokens: Array, like: Array) -> tuple[Array, tuple[Array, Array]]:
    return _rows_of(table, tokens, like), (table, tokens)


def _rows_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, None, None]:
    """Every device gets its columns of all rows, which are far fewer numbers than a whole table's sums to be added."""
    table, tokens = kept
    gradient = constrain(gradient, None, None, "embed")

    def summed(vocab: Array, tokens: Array, gradient: Array) -> tuple[Array]:
        """vocab: the tokens whose rows of the table are this device's."""

        def add(to_table: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
            numbers, sums = sums_by_number(row[1], row[0] - vocab[0], len(vocab))
            return to_table.at[numbers].add(sums, mode="drop", unique_indices=True), None

        nothing = jnp.zeros((len(vocab), gradient.shape[-1]), jnp.float32)
        return (jax.lax.scan(add, nothing, (tokens, gradient))[0],)

    arguments = jnp.arange(len(table), dtype=tokens.dtype), tokens, gradient
    axes = ("vocab",), (None, None), (None, None, "embed")
    (to_table,) = on_shards(summed, arguments, axes, (("vocab", "embed"),))
    return to_table.astype(table.dtype), None, None


_rows_of.defvjp(_rows_forward, _rows_backward)


@jax.custom_vjp
def take_places(
    x: Float[Array, "batch time width"], places: Int[Array, "batch taken"]
) -> Float[Array, "batch taken width"]:
    """Each row's states at its own places. The gradient is summed in float32."""
    return jnp.take_along_axis(x, places[..., None], axis=1)


def _take_forward(x: Array, places: Array) -> tuple[Array, tuple[Array, Array]]:
    return take_places(x, places), (x, places)


def _take_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, None]:
    x, places = kept
    time = x.shape[1]

    def of_row(gradient: Array, places: Array) -> Array:
        numbers, sums = sums_by_number(gradient, places, time)
        nothing = jnp.zeros((time, gradient.shape[-1]), gradient.dtype)
        return nothing.at[numbers].set(sums.astype(gradient.dtype), mode="drop", unique_indices=True)

    def summed(gradient: Array, places: Array) -> tuple[Array]:
        return (jax.vmap(of_row)(gradient, places),)

    return *on_shards(summed, (gradient, places), (("batch",), ("batch",)), (("batch",),)), None


take_places.defvjp(_take_forward, _take_backward)


def sums_by_number(
    rows: Float[Array, "rows width"], numbers: Int[Array, " rows"], size: int
) -> tuple[Int[Array, " sums"], Float[Array, "sums width"]]:
    """Every number below `size` that rows have, once, and the sum of its rows in float32, which is otherwise 0.

    There are more sums than numbers: to the others belong numbers from `size` on, which no two share. Rows with other
    numbers are left out. The rows of a number are added in an order that depends on the numbers alone.
    """
    padding = -len(rows) % BLOCK
    numbers = jnp.where((numbers >= 0) & (numbers < size), numbers, size)
    numbers = jnp.pad(numbers, (0, padding), constant_values=size)
    numbers, order = jax.lax.sort((numbers, jnp.arange(len(numbers), dtype=numbers.dtype)), num_keys=1)
    blocks = jnp.pad(rows, ((0, padding), (0, 0)))[order].reshape(-1, BLOCK, rows.shape[1])
    numbers = numbers.reshape(-1, BLOCK)
    # Rows of the same number are a run. In each block, the sums of its runs are one product, in order.
    starts = jnp.pad(numbers[:, 1:] != numbers[:, :-1], ((0, 0), (1, 0)))
    run = jnp.cumsum(starts, axis=1)
    of_run = run[:, None] == jnp.arange(BLOCK)[None, :, None]  # [blocks, runs, rows]
    exact = {"precision": jax.lax.Precision.HIGHEST, "preferred_element_type": jnp.float32}
    sums = jnp.einsum("nrb,nbw->nrw", of_run.astype(rows.dtype), blocks, **exact)
    # A block's first run may have begun in earlier blocks, whose last run it is.
    last = jnp.take_along_axis(sums, run[:, -1:, None], axis=1)[:, 0]
    before = jnp.pad(_sums_so_far(last, numbers[:, -1])[:-1], ((1, 0), (0, 0)))
    continues = jnp.pad(numbers[1:, 0] == numbers[:-1, -1], (1, 0))
    sums = sums.at[:, 0].add(jnp.where(continues[:, None], before, 0))
    # It counts where it ends.
    of_sums = jnp.max(jnp.where(of_run, numbers[:, None], -1), axis=2)
    goes_on = jnp.pad(continues[1:], (0, 1))[:, None] & (jnp.arange(BLOCK)[None] == run[:, -1:])
    counts = ((of_sums >= 0) & (of_sums < size) & ~goes_on).reshape(-1)
    unused = size + jnp.arange(counts.size, dtype=numbers.dtype)
    return jnp.where(counts, of_sums.reshape(-1), unused), sums.reshape(-1, rows.shape[1])


def _sums_so_far(sums: Float[Array, "sums width"], numbers: Int[Array, " sums"]) -> Float[Array, "sums width"]:
    """Each with those before it that have the same number; numbers are sorted."""
    reach = 1
    while reach < len(numbers):  # each holds the sum of at most `reach`: itself and those before it
        same = numbers[reach:] == numbers[:-reach]
        sums += jnp.pad(jnp.where(same[:, None], sums[:-reach], 0), ((reach, 0), (0, 0)))
        reach *= 2
    return sums
