"""The Qwen2 decoder in Flax (architecture: arXiv 2412.15115): RMSNorm, RoPE, grouped-query attention with
biased QKV projections, SwiGLU. Layers are stacked on a leading axis and scanned.

Parameter names follow Hugging Face's. Every parameter carries logical axis names, from which its sharding is
derived.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from codea1_jax.devices.layout import constrain, platform
from codea1_jax.models.attention import Attend, training_attention
from codea1_jax.models.attention.sight import MIXED, Sight
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.gathers import embed

Params = Any  # a nested dict of arrays

LORA_A, LORA_B = "lora_a", "lora_b"  # next to a kernel, where it has adapters (`lora`)
KERNEL_SCALE = "kernel_scale"  # next to a kernel of eight bits (`rollout.quantize`)

_KEEP_MIXED = jax.checkpoint_policies.save_only_these_names(MIXED)
_KEEP_PRODUCTS = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
# What a layer keeps for the backward pass besides its input; None: everything.
REMAT_POLICIES = {
    "none": None,
    "full": _KEEP_MIXED,
    "dots": jax.checkpoint_policies.save_from_both_policies(_KEEP_MIXED, _KEEP_PRODUCTS),
}


def rope_tables(
    positions: Int[Array, "batch time"], head_dim: int, theta: float
) -> tuple[Float[Array, "batch time half"], Float[Array, "batch time half"]]:
    """Cosines and sines of the rotary embedding (arXiv 2104.09864), in float32."""
    frequencies = theta ** (-jnp.arange(0, head_dim, 2, dtype=jnp.float32) / head_dim)
    angles = positions[..., None].astype(jnp.float32) * frequencies[None, None]
    return jnp.cos(angles), jnp.sin(angles)


def apply_rope(
    x: Float[Array, "batch time heads head_dim"],
    cos: Float[Array, "batch time half"],
    sin: Float[Array, "batch time half"],
) -> Float[Array, "batch time heads head_dim"]:
    """Rotates the pairs (i, i + head_dim/2), as Qwen2 does."""
    whole_sequences = x.shape[1] > 1  # of one token each, as in decoding, the halves are cheaper
    return rotate_by_product(x, cos, sin) if platform() == "tpu" and whole_sequences else rotate(x, cos, sin)


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """`apply_rope`, by halves."""
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


def parameter(
    module: RMSNorm | Linear | Qwen2,
    name: str,
    init: nn.initializers.Initializer,
    axes: tuple[str, ...],
    shape: tuple[int, ...],
) -> Array:
    """A parameter of `module` whose axes carry logical names."""
    value = module.param(name, nn.with_logical_partitioning(init, axes), shape, module.param_dtype)
    return cast(Array, value)  # flax hands out the array, not the box that its types promise


class RMSNorm(nn.Module):
    """Root-mean-square norm (arXiv 1910.07467), computed in float32."""

    epsilon: float
    param_dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: Float[Array, "batch time width"]) -> Float[Array, "batch time width"]:
        weight = parameter(self, "weight", nn.initializers.ones_init(), ("norm",), x.shape[-1:])
        wide = x.astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + self.epsilon)
        return (wide * scale).astype(x.dtype) * weight.astype(x.dtype)[None, None]


@jax.custom_vjp
def matmul(
    x: Float[Array, "batch time width"], kernel: Float[Array, "width features"]
) -> Float[Array, "batch time features"]:
    """x @ kernel, whose kernel's gradient has the kernel's own order of axes.

    JAX's own rule computes that gradient transposed: XLA's CPU backend then transposes the incoming gradient,
    element by element, which takes longer than the product.
    """
    return x @ kernel


def _matmul_forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ kernel, (x, kernel)


def _matmul_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, kernel = kept
    return jnp.einsum("btf,wf->btw", gradient, kernel), jnp.einsum("btw,btf->wf", x, gradient)


matmul.defvjp(_matmul_forward, _matmul_backward)


class Linear(nn.Module):
    """x @ kernel (+ bias), with logical axis names on the parameters.

    Adapters, and the scales of a kernel of eight bits, are applied where there are any (`lora`, `rollout.quantize`).
    """

    features: int
    axes: tuple[str, str]
    dtype: jnp.dtype
    param_dtype: jnp.dtype
    use_bias: bool = False

    @nn.compact
    def __call__(self, x: Float[Array, "batch time width"]) -> Float[Array, "batch time features"]:
        shape = (x.shape[-1], self.features)
        kernel = parameter(self, "kernel", nn.initializers.normal(0.02), self.axes, shape)
        # Gathered whole from `fsdp` before the product: XLA for TPU would otherwise exchange pieces inside of it.
        whole = constrain(kernel.astype(self.dtype), *("width" if axis == "embed" else axis for axis in self.axes))
        y = matmul(x, whole)
        if self.has_variable("params", KERNEL_SCALE):
            y = y * self.get_variable("params", KERNEL_SCALE)[None, None]
        if self.has_variable("params", LORA_A):
            a, b = (self.get_variable("params", name).astype(self.dtype) for name in (LORA_A, LORA_B))
            y = y + matmul(matmul(x, a), b)
        if self.use_bias:
            bias = parameter(self, "bias", nn.initializers.zeros_init(), self.axes[1:], shape[1:])
            y = y + bias.astype(self.dtype)[None, None]
        return y


class Attention(nn.Module):
    """Grouped-query self-attention; the mixing itself is the caller's `attend`."""

    config: Qwen2Config
    dtype: jnp.dtype
    param_dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: Array, rope: tuple[Array, Array], attend: Attend, kept: Any) -> tuple[Array, Any]:
        c = self.config
        batch, time, _ = x.shape

        def project(name: str, heads: int, axis: str) -> Array:
            linear = Linear(heads * c.head_dim, ("embed", axis), self.dtype, self.param_dtype, use_bias=True, name=name)
            return constrain(linear(x).reshape(batch, time, heads, c.head_dim), "batch", "time", axis, "head_dim")

        q = apply_rope(project("q_proj", c.num_heads, "heads"), *rope)
        k = apply_rope(project("k_proj", c.num_kv_heads, "kv_heads"), *rope)
        v = project("v_proj", c.num_kv_heads, "kv_heads")
        mixed, kept = attend(q, k, v, kept)
        out = Linear(c.hidden_size, ("heads", "embed"), self.dtype, self.param_dtype, name="o_proj")
        return out(mixed.reshape(batch, time, -1)), kept


@partial(jax.checkpoint, prevent_cse=False)
def gated(
    gate: Float[Array, "batch time inner"], up: Float[Array, "batch time inner"]
) -> Float[Array, "batch time inner"]:
    """SwiGLU's product. What its backward pass needs it computes again from the two factors."""
    return nn.silu(gate) * up


class MLP(nn.Module):
    """SwiGLU feed-forward (arXiv 2002.05202)."""

    config: Qwen2Config
    dtype: jnp.dtype
    param_dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: Array) -> Array:
        width, inner = self.config.hidden_size, self.config.intermediate_size

        def linear(features: int, axes: tuple[str, str], name: str) -> Linear:
            return Linear(features, axes, self.dtype, self.param_dtype, name=name)

        gate = linear(inner, ("embed", "mlp"), "gate_proj")(x)
        up = linear(inner, ("embed", "mlp"), "up_proj")(x)
        middle = constrain(gated(gate, up), "batch", "time", "mlp")
        return linear(width, ("mlp", "embed"), "down_proj")(middle)


class Block(nn.Module):
    """One pre-norm decoder layer."""

    config: Qwen2Config
    dtype: jnp.dtype
    param_dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: Array, kept: Any, rope: tuple[Array, Array], attend: Attend) -> tuple[Array, Any]:
        c = self.config

        def norm(name: str) -> RMSNorm:
            return RMSNorm(c.rms_norm_eps, self.param_dtype, name=name)

        attention = Attention(c, self.dtype, self.param_dtype, name="self_attn")
        mixed, kept = attention(norm("input_layernorm")(x), rope, attend, kept)
        x = constrain(x + mixed, "batch", "time", "width")
        x = x + MLP(c, self.dtype, self.param_dtype, name="mlp")(norm("post_attention_layernorm")(x))
        return constrain(x, "batch", "time", "width"), kept


class Qwen2(nn.Module):
    """Tokens to final hidden states.

    remat: names what the backward pass recomputes (`REMAT_POLICIES`).
    attention: the kernel of attention over whole sequences (`attention.KERNELS`).
    """

    config: Qwen2Config
    dtype: Any = jnp.float32
    param_dtype: Any = jnp.float32
    remat: str = "none"
    attention: str = "auto"

    @nn.compact
    def __call__(
        self,
        tokens: Int[Array, "batch time"],
        positions: Int[Array, "batch time"],
        attend: Attend,
        kept: Any = None,
    ) -> tuple[Float[Array, "batch time width"], Any]:
        """Hidden states after the final norm, and what `attend` kept, stacked over layers.

        `kept` is a pytree whose leaves have a leading layer axis, or None.
        """
        c = self.config
        init, axes, shape = nn.initializers.normal(0.02), ("vocab", "embed"), (c.vocab_size, c.hidden_size)
        table = parameter(self, "embed_tokens", init, axes, shape)
        if not c.tie_embeddings:  # declared here, used by `output_table`
            parameter(self, "lm_head", init, axes, shape)
        x = embed(table, tokens, self.dtype)
        rope = rope_tables(positions, c.head_dim, c.rope_theta)
        policy = REMAT_POLICIES[self.remat]
        block = Block if policy is None else nn.remat(Block, policy=policy, prevent_cse=False)
        layers = nn.scan(
            block,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=(0, nn.broadcast, nn.broadcast),  # pyright: ignore[reportArgumentType]  takes tuples too
            out_axes=0,
            length=c.num_layers,
            metadata_params={nn.PARTITION_NAME: "layers"},
        )
        x, kept = layers(c, self.dtype, self.param_dtype, name="layers")(x, kept, rope, attend)
        return RMSNorm(c.rms_norm_eps, self.param_dtype, name="norm")(x), kept


def output_table(params: Params, config: Qwen2Config) -> Float[Array, "vocab width"]:
    """The matrix whose product with a hidden state gives the logits."""
    return params["embed_tokens"] if config.tie_embeddings else params["lm_head"]


@partial(jax.jit, static_argnums=0)
def init_params(model: Qwen2, key: jax.Array) -> Params:
    """Random parameters, as a plain nested dict of arrays."""
    return nn.unbox(_init(model, key))


def abstract_params(model: Qwen2) -> Params:
    """The parameters' shapes and dtypes, without their values."""
    return nn.unbox(logical_params(model))


def logical_params(model: Qwen2) -> Params:
    """The parameters' shapes and dtypes in boxes (`nn.LogicallyPartitioned`) that name their axes."""
    return jax.eval_shape(lambda key: _init(model, key), jax.random.key(0))


def _init(model: Qwen2, key: jax.Array) -> Params:
    zeros = jnp.zeros((1, 1), jnp.int32)
    return model.init(key, zeros, zeros, training_attention(Sight.within(zeros)))["params"]
