"""Parameters that compute the same from keys and values whose channels are all of about one size.

Eight-bit floats of four exponent and three mantissa bits keep a number to one part in sixteen: float8_e4m3fn from 1/64
to 448, float8_e4m3b11fnuz, which TPUs have, from 1/1024 to 30; a larger one becomes NaN. In a pretrained model the
channels of keys and values differ by more than that: Qwen2's biases make some keys hundreds. So each channel is divided
by a scale, and what it is multiplied with later is multiplied by it: queries for keys, rows of the output projection
for values (cross-layer equalization, arXiv 1906.04721, section 4.1). Scales are powers of two and the two channels that
the rotary embedding turns into each other share one, so that nothing is rounded. They follow from the parameters alone:
no data decides them, and a sample's tokens depend on no other sample's.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Params

SIZE = 1 / 4  # so that hidden sizes up to 14,399 stay below 30, whatever the inputs


def equalize(layers: Params, shape: Architecture) -> Params:
    """Stacked layers that compute the same, whose keys and values have channels of a size from SIZE / 2 to SIZE.

    A channel's size is the root mean square that it has of inputs without correlations, and a key's that of its pair.
    Whatever the inputs, which are normalized, no number is larger than SIZE · √(hidden_size + 1).
    """
    attention, norm = layers["self_attn"], layers["input_layernorm"]["weight"]
    of_values = _power_of_two(_sizes(attention["v_proj"], norm))
    output = attention["o_proj"]
    changed = {
        "v_proj": _scaled(attention["v_proj"], 1 / of_values),
        "o_proj": output | {"kernel": _times(output["kernel"], _for_queries(of_values, shape)[:, :, None])},
    }
    if shape.qk_norm:  # the sizes are those of the norms' weights, which all heads share
        queries, keys = (attention[name]["weight"] for name in ("q_norm", "k_norm"))
        of_keys = _power_of_two(_of_pairs(jnp.abs(keys).astype(jnp.float32), shape.head_dim))
        changed |= {"q_norm": {"weight": _times(queries, of_keys)}, "k_norm": {"weight": _times(keys, 1 / of_keys)}}
    else:
        of_keys = _power_of_two(_of_pairs(_sizes(attention["k_proj"], norm), shape.head_dim))
        changed |= {
            "q_proj": _scaled(attention["q_proj"], _for_queries(of_keys, shape)),
            "k_proj": _scaled(attention["k_proj"], 1 / of_keys),
        }
    return layers | {"self_attn": attention | changed}


def _of_pairs(sizes: Float[Array, "layers features"], head_dim: int) -> Float[Array, "layers features"]:
    """Of each feature and the one that the rotary embedding turns with it."""
    halves = sizes.reshape(len(sizes), -1, 2, head_dim // 2)
    pairs = jnp.broadcast_to(jnp.sqrt(jnp.sum(halves**2, axis=2, keepdims=True)), halves.shape)
    return pairs.reshape(sizes.shape)


def _sizes(linear: Params, norm: Float[Array, "layers inputs"]) -> Float[Array, "layers features"]:
    """Root mean squares of what a projection makes of normalized inputs."""
    squares = jnp.sum((linear["kernel"].astype(jnp.float32) * norm.astype(jnp.float32)[:, :, None]) ** 2, axis=1)
    return jnp.sqrt(squares + linear["bias"].astype(jnp.float32) ** 2 if "bias" in linear else squares)


def _power_of_two(sizes: Float[Array, "layers features"]) -> Float[Array, "layers features"]:
    """The smallest by which these become less than SIZE; of a channel that is always 0, any."""
    _, exponents = jnp.frexp(sizes / SIZE)
    return jnp.ldexp(jnp.ones_like(sizes), exponents)


def _for_queries(scales: Float[Array, "layers kv_features"], shape: Architecture) -> Float[Array, "layers features"]:
    """The scales of the key/value head that each query head looks at."""
    by_head = scales.reshape(len(scales), shape.num_kv_heads, shape.head_dim)
    return jnp.repeat(by_head, shape.group_size, axis=1).reshape(len(scales), -1)


def _scaled(linear: Params, scales: Float[Array, "layers features"]) -> Params:
    return {name: _times(x, scales[:, None] if name == "kernel" else scales) for name, x in linear.items()}


def _times(x: Array, scales: Array) -> Array:
    return x * scales.astype(x.dtype)
