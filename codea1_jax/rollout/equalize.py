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


def equalize(layers: Params, config: Architecture) -> Params:
    """Stacked layers that compute the same, whose keys and values have channels of a size from SIZE / 2 to SIZE.

    A channel's size is the root mean square that it has of inputs without correlations, and a key's that of its pair.
    Whatever the inputs, which are normalized, no number is larger than SIZE · √(hidden_size + 1).
    """
    attention, norm = layers["self_attn"], layers["input_layernorm"]["weight"]
    keys, values = (_sizes(attention[name], norm) for name in ("k_proj", "v_proj"))
    halves = keys.reshape(len(keys), config.num_kv_heads, 2, config.head_dim // 2)
    pairs = jnp.broadcast_to(jnp.sqrt(jnp.sum(halves**2, axis=2, keepdims=True)), halves.shape)
    of_keys, of_values = _power_of_two(pairs.reshape(keys.shape)), _power_of_two(values)
    output = attention["o_proj"]
    changed = {
        "q_proj": _scaled(attention["q_proj"], _for_queries(of_keys, config)),
        "k_proj": _scaled(attention["k_proj"], 1 / of_keys),
        "v_proj": _scaled(attention["v_proj"], 1 / of_values),
        "o_proj": output | {"kernel": _times(output["kernel"], _for_queries(of_values, config)[:, :, None])},
    }
    return layers | {"self_attn": attention | changed}


def _sizes(linear: Params, norm: Float[Array, "layers inputs"]) -> Float[Array, "layers features"]:
    """Root mean squares of what a projection makes of normalized inputs."""
    kernel, bias, norm = (x.astype(jnp.float32) for x in (linear["kernel"], linear["bias"], norm))
    return jnp.sqrt(jnp.sum((kernel * norm[:, :, None]) ** 2, axis=1) + bias**2)


def _power_of_two(sizes: Float[Array, "layers features"]) -> Float[Array, "layers features"]:
    """The smallest by which these become less than SIZE; of a channel that is always 0, any."""
    _, exponents = jnp.frexp(sizes / SIZE)
    return jnp.ldexp(jnp.ones_like(sizes), exponents)


def _for_queries(scales: Float[Array, "layers kv_features"], config: Architecture) -> Float[Array, "layers features"]:
    """The scales of the key/value head that each query head looks at."""
    by_head = scales.reshape(len(scales), config.num_kv_heads, config.head_dim)
    return jnp.repeat(by_head, config.group_size, axis=1).reshape(len(scales), -1)


def _scaled(linear: Params, scales: Float[Array, "layers features"]) -> Params:
    return {"kernel": _times(linear["kernel"], scales[:, None]), "bias": _times(linear["bias"], scales)}


def _times(x: Array, scales: Array) -> Array:
    return x * scales.astype(x.dtype)
