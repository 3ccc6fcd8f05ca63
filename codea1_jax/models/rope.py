"""Rotary position embeddings (RoPE, arXiv 2104.09864)."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.runtime.layout import platform

Frequencies = Float[np.ndarray, " half"]


@dataclass(frozen=True)
class LinearScaling:
    """Positions are divided by a factor (arXiv 2306.15595)."""

    factor: float

    def slowed(self, frequencies: Frequencies) -> Frequencies:
        return frequencies / self.factor


@dataclass(frozen=True)
class Llama3Scaling:
    """Low frequencies are divided by a factor, high ones kept, those between interpolated (arXiv 2407.21783)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def slowed(self, frequencies: Frequencies) -> Frequencies:
        turns = self.original_max_position_embeddings * frequencies / (2 * math.pi)  # within the original context
        kept = np.clip((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor), 0, 1)
        return frequencies * (kept + (1 - kept) / self.factor)


RopeScaling = LinearScaling | Llama3Scaling
SCALINGS: dict[str, type[RopeScaling]] = {"linear": LinearScaling, "llama3": Llama3Scaling}


def rope_tables(
    positions: Int[Array, "batch time"], head_dim: int, theta: float, scaling: RopeScaling | None = None
) -> tuple[Float[Array, "batch time half"], Float[Array, "batch time half"]]:
    frequencies = theta ** (-jnp.arange(0, head_dim, 2, dtype=jnp.float32) / head_dim)
    if scaling is not None:
        exact = theta ** (-np.arange(0, head_dim, 2) / head_dim)
        frequencies = jnp.asarray(scaling.slowed(exact), jnp.float32)
    angles = positions[..., None].astype(jnp.float32) * frequencies[None, None]
    return jnp.cos(angles), jnp.sin(angles)


def tables_if(rotates: Bool[Array, ""] | None, tables: tuple[Array, Array]) -> tuple[Array, Array]:
    """The tables, or such as change nothing for a layer that does not rotate. None: it does."""
    if rotates is None:
        return tables
    cos, sin = tables
    return jnp.where(rotates, cos, 1), jnp.where(rotates, sin, 0)


def apply_rope(
    x: Float[Array, "batch time heads head_dim"],
    cos: Float[Array, "batch time half"],
    sin: Float[Array, "batch time half"],
) -> Float[Array, "batch time heads head_dim"]:
    """Rotates the pairs (i, i + head_dim/2), as transformers does."""
    whole_sequences = x.shape[1] > 1  # of one token each, as in decoding, the halves are cheaper
    return rotate_by_product(x, cos, sin) if platform() == "tpu" and whole_sequences else rotate(x, cos, sin)


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = cos[:, :, None], sin[:, :, None]
    turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return turned.astype(x.dtype)


@jax.custom_vjp
def rotate_by_product(x: Array, cos: Array, sin: Array) -> Array:
    """`apply_rope`, whose halves a matrix of ones and minus ones exchanges: the same numbers.

    XLA for TPU would cut vectors of 128 in two, and copy them before and after; the matrix unit has time for this.
    """
    half = x.shape[-1] // 2
    exchange = np.roll(np.eye(2 * half), half, axis=1) * np.where(np.arange(2 * half) < half, -1.0, 1.0)
    # Every sum has one summand, so it is exact in any precision that holds the factors.
    exchanged = jnp.einsum("bthd,de->bthe", x, jnp.asarray(exchange, x.dtype), precision=jax.lax.Precision.HIGHEST)
    cos, sin = (jnp.concatenate([table, table], axis=-1)[:, :, None] for table in (cos, sin))
    return (x.astype(jnp.float32) * cos + exchanged.astype(jnp.float32) * sin).astype(x.dtype)


def _rotate_forward(x: Array, cos: Array, sin: Array) -> tuple[Array, tuple[Array, Array]]:
    return rotate_by_product(x, cos, sin), (cos, sin)


def _rotate_backward(tables: tuple[Array, Array], gradient: Array) -> tuple[Array, None, None]:
    cos, sin = tables
    return rotate_by_product(gradient, cos, -sin), None, None  # back again


rotate_by_product.defvjp(_rotate_forward, _rotate_backward)
