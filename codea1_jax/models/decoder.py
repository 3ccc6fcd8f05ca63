"""The decoder in Flax, as an `Architecture` states it: RMSNorm, RoPE, grouped-query attention, SwiGLU.

Layers come in one of two forms. Stacked on a leading axis they are scanned, which compiles fast: learning wants that.
But XLA copies a layer out of the stack at every step of decoding: a fifth of a step's time on a CPU, more on GPUs. So
samplers unstack the layers once (`rollout.decode_params`), and a tuple of layers runs one after another.

Parameter names follow Hugging Face's; every parameter carries logical axis names, from which its sharding is derived.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.attention import Attend, training_attention
from codea1_jax.models.attention.sight import MIXED, Sight
from codea1_jax.models.gathers import embed
from codea1_jax.models.rope import apply_rope, rope_tables, tables_if
from codea1_jax.runtime.layout import constrain, platform

Params = Any  # a nested dict of arrays

LORA_A, LORA_B = "lora_a", "lora_b"  # next to a kernel, where it has adapters (`lora`)
KERNEL = "kernel"
TRANSPOSED_KERNEL = "transposed_kernel"  # in place of a kernel (`rollout.decode_params`)

_KEEP_MIXED = jax.checkpoint_policies.save_only_these_names(MIXED)
_KEEP_PRODUCTS = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
# What a layer keeps for the backward pass besides its input; None: everything.
REMAT_POLICIES = {
    "none": None,
    "full": _KEEP_MIXED,
    "dots": jax.checkpoint_policies.save_from_both_policies(_KEEP_MIXED, _KEEP_PRODUCTS),
}


def parameter(
    module: "RMSNorm | Linear | Transformer",
    name: str,
    init: nn.initializers.Initializer,
    axes: tuple[str, ...],
    shape: tuple[int, ...],
) -> Array:
    value = module.param(name, nn.with_logical_partitioning(init, axes), shape, module.param_dtype)
    return cast(Array, value)  # flax hands out the array, not the box that its types promise


class RMSNorm(nn.Module):
    """Root-mean-square norm (arXiv 1910.07467), computed in float32."""

    epsilon: float
    param_dtype: Any

    @nn.compact
    def __call__(self, x: Float[Array, "batch time *heads width"]) -> Float[Array, "batch time *heads width"]:
        weight = parameter(self, "weight", nn.initializers.ones_init(), ("norm",), x.shape[-1:])
        wide = x.astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + self.epsilon)
        return (wide * scale).astype(x.dtype) * jnp.expand_dims(weight.astype(x.dtype), range(x.ndim - 1))


@jax.custom_vjp
def matmul(
    x: Float[Array, "batch time width"], kernel: Float[Array, "width features"]
) -> Float[Array, "batch time features"]:
    """x @ kernel, whose kernel's gradient has the kernel's own order of axes.

    JAX's own rule computes that gradient transposed: XLA's CPU backend then transposes the incoming gradient,
    element by element, which takes longer than the product.
    """
    return _product("btw,wf->btf", x, kernel)


def _matmul_forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return _product("btw,wf->btf", x, kernel), (x, kernel)


def _matmul_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, kernel = kept
    return _product("btf,wf->btw", gradient, kernel), _product("btw,btf->wf", x, gradient)


def _product(equation: str, left: Array, right: Array) -> Array:
    """An einsum, which XLA for CPU computes several times as fast in bfloat16 if its sums leave it in float32."""
    wide = jnp.float32 if platform() == "cpu" else None
    return jnp.einsum(equation, left, right, preferred_element_type=wide).astype(left.dtype)


matmul.defvjp(_matmul_forward, _matmul_backward)


class Linear(nn.Module):
    """x @ kernel (+ bias), with logical axis names on the parameters.

    Adapters are applied where there are any (`lora`). A kernel may be transposed, on a CPU. Its product is of matrices
    and in float32, or XLA would make copies of all bfloat16 kernels.
    """

    features: int
    axes: tuple[str, str]
    dtype: Any
    param_dtype: Any
    use_bias: bool = False

    @nn.compact
    def __call__(self, x: Float[Array, "batch time width"]) -> Float[Array, "batch time features"]:
        shape = (x.shape[-1], self.features)
        # Gathered whole from `fsdp` before the product: XLA for TPU would otherwise exchange pieces inside of it.
        axes = tuple("width" if axis == "embed" else axis for axis in self.axes)
        if self.has_variable("params", TRANSPOSED_KERNEL):
            whole = constrain(self.get_variable("params", TRANSPOSED_KERNEL).astype(self.dtype), *axes[::-1])
            rows = jnp.einsum("rw,fw->rf", x.reshape(-1, x.shape[-1]), whole, preferred_element_type=jnp.float32)
            y = rows.reshape(*x.shape[:-1], -1).astype(self.dtype)
        else:
            kernel = parameter(self, KERNEL, nn.initializers.normal(0.02), self.axes, shape)
            y = matmul(x, constrain(kernel.astype(self.dtype), *axes))
        if self.has_variable("params", LORA_A):
            a, b = (self.get_variable("params", name).astype(self.dtype) for name in (LORA_A, LORA_B))
            y = y + matmul(matmul(x, a), b)
        if self.use_bias:
            bias = parameter(self, "bias", nn.initializers.zeros_init(), self.axes[1:], shape[1:])
            y = y + bias.astype(self.dtype)[None, None]
        return y


class Attention(nn.Module):
    """Grouped-query self-attention; the mixing itself is the caller's `attend`."""

    architecture: Architecture
    dtype: Any
    param_dtype: Any

    @nn.compact
    def __call__(self, x: Array, rope: tuple[Array, Array], attend: Attend, kept: Any) -> tuple[Array, Any]:
        a = self.architecture
        batch, time, _ = x.shape

        def project(name: str, heads: int, axis: str) -> Array:
            axes, types = ("embed", axis), (self.dtype, self.param_dtype)
            projected = Linear(heads * a.head_dim, axes, *types, use_bias=a.qkv_bias, name=name)(x)
            return constrain(projected.reshape(batch, time, heads, a.head_dim), "batch", "time", axis, "head_dim")

        def embed_position(x: Array, norm: str) -> Array:
            if a.qk_norm:
                x = RMSNorm(a.rms_norm_eps, self.param_dtype, name=norm)(x)
            return apply_rope(x, *rope)

        q = embed_position(project("q_proj", a.num_heads, "heads"), "q_norm")
        k = embed_position(project("k_proj", a.num_kv_heads, "kv_heads"), "k_norm")
        v = project("v_proj", a.num_kv_heads, "kv_heads")
        mixed, kept = attend(q, k, v, kept)
        out = Linear(a.hidden_size, ("heads", "embed"), self.dtype, self.param_dtype, name="o_proj")
        return out(mixed.reshape(batch, time, -1)), kept


@partial(jax.checkpoint, prevent_cse=False)
def gated(
    gate: Float[Array, "batch time inner"], up: Float[Array, "batch time inner"]
) -> Float[Array, "batch time inner"]:
    """SwiGLU's product. What its backward pass needs it computes again from the two factors."""
    return nn.silu(gate) * up


class MLP(nn.Module):
    """SwiGLU feed-forward (arXiv 2002.05202)."""

    architecture: Architecture
    dtype: Any
    param_dtype: Any

    @nn.compact
    def __call__(self, x: Array) -> Array:
        width, inner = self.architecture.hidden_size, self.architecture.intermediate_size

        def linear(features: int, axes: tuple[str, str], name: str) -> Linear:
            return Linear(features, axes, self.dtype, self.param_dtype, name=name)

        gate = linear(inner, ("embed", "mlp"), "gate_proj")(x)
        up = linear(inner, ("embed", "mlp"), "up_proj")(x)
        middle = constrain(gated(gate, up), "batch", "time", "mlp")
        return linear(width, ("mlp", "embed"), "down_proj")(middle)


class Block(nn.Module):
    architecture: Architecture
    dtype: Any
    param_dtype: Any

    @nn.compact
    def __call__(
        self, x: Array, kept: Any, rotates: Bool[Array, ""] | None, rope: tuple[Array, Array], attend: Attend
    ) -> tuple[Array, Any]:
        a = self.architecture

        def norm(name: str) -> RMSNorm:
            return RMSNorm(a.rms_norm_eps, self.param_dtype, name=name)

        attention = Attention(a, self.dtype, self.param_dtype, name="self_attn")
        mixed, kept = attention(norm("input_layernorm")(x), tables_if(rotates, rope), attend, kept)
        x = constrain(x + mixed, "batch", "time", "width")
        x = x + MLP(a, self.dtype, self.param_dtype, name="mlp")(norm("post_attention_layernorm")(x))
        return constrain(x, "batch", "time", "width"), kept


class Transformer(nn.Module):
    """Tokens to final hidden states.

    remat: names what the backward pass recomputes (`REMAT_POLICIES`).
    attention: the kernel of attention over whole sequences (`attention.KERNELS`).
    """

    architecture: Architecture
    dtype: Any = jnp.float32
    param_dtype: Any = jnp.float32
    remat: str = "none"
    attention: str = "auto"

    @nn.compact
    def __call__(
        self, tokens: Int[Array, "batch time"], positions: Int[Array, "batch time"], attend: Attend, kept: Any = None
    ) -> tuple[Float[Array, "batch time width"], Any]:
        """Hidden states after the final norm, and what `attend` kept of every layer.

        `kept` is like the layers' parameters: a pytree whose leaves have a leading layer axis, or None; of a tuple of
        layers, a tuple with an entry for each.
        """
        a = self.architecture
        init, axes, shape = nn.initializers.normal(0.02), ("vocab", "embed"), (a.vocab_size, a.hidden_size)
        table = parameter(self, "embed_tokens", init, axes, shape)
        if not a.tie_embeddings:  # declared here, used by `output_table`
            parameter(self, "lm_head", init, axes, shape)
        x = embed(table, tokens, self.dtype)
        rope = rope_tables(positions, a.head_dim, a.rope_theta, a.rope_scaling)
        layers = self.get_variable("params", "layers")
        run = self._one_by_one if isinstance(layers, tuple) else self._scanned
        x, kept = run(x, kept, rope, attend)
        return RMSNorm(a.rms_norm_eps, self.param_dtype, name="norm")(x), kept

    def _scanned(self, x: Array, kept: Any, rope: tuple[Array, Array], attend: Attend) -> tuple[Array, Any]:
        policy = REMAT_POLICIES[self.remat]
        block = Block if policy is None else nn.remat(Block, policy=policy, prevent_cse=False)
        layers = nn.scan(
            block,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=(0, 0, nn.broadcast, nn.broadcast),  # pyright: ignore[reportArgumentType]  takes tuples too
            out_axes=0,
            length=self.architecture.num_layers,
            metadata_params={nn.PARTITION_NAME: "layers"},
        )(self.architecture, self.dtype, self.param_dtype, name="layers")
        return layers(x, kept, _rotating_layers(self.architecture), rope, attend)

    def _one_by_one(
        self, x: Array, kept: Sequence[Any], rope: tuple[Array, Array], attend: Attend
    ) -> tuple[Array, tuple[Any, ...]]:
        layers: Sequence[Params] = self.get_variable("params", "layers")
        rotating = _rotating_layers(self.architecture)
        block = Block(self.architecture, self.dtype, self.param_dtype, parent=None)
        now = []
        for index, (layer, before) in enumerate(zip(layers, kept, strict=True)):
            rotates = None if rotating is None else rotating[index]
            x, keeps = _apply_layer(block, layer, x, before, rotates, rope, attend)
            now.append(keeps)
        return x, tuple(now)


def _rotating_layers(architecture: Architecture) -> Bool[Array, " layers"] | None:
    if not architecture.layers_without_rope:
        return None
    return jnp.asarray(~np.isin(np.arange(architecture.num_layers), architecture.layers_without_rope))


@partial(jax.jit, static_argnames="block")
def _apply_layer(
    block: Block, layer: Params, x: Array, before: Any, rotates: Any, rope: tuple[Array, Array], attend: Attend
) -> tuple[Array, Any]:
    """One layer. Jitted, so that Python traces it once for all layers, which are alike; XLA compiles it in place."""
    inputs = x, before, rotates, rope, attend
    return block.apply({"params": layer}, *inputs)  # pyright: ignore[reportReturnType]  as called


def flatten(tree: Params) -> dict[tuple[str, ...], Any]:
    return cast("dict[tuple[str, ...], Any]", traverse_util.flatten_dict(tree))


def output_table(params: Params, architecture: Architecture) -> Float[Array, "vocab width"]:
    return params["embed_tokens"] if architecture.tie_embeddings else params["lm_head"]


@partial(jax.jit, static_argnums=0)
def init_params(model: Transformer, key: jax.Array) -> Params:
    return nn.unbox(_init(model, key))


def abstract_params(model: Transformer) -> Params:
    return nn.unbox(logical_params(model))


def logical_params(model: Transformer) -> Params:
    """The parameters' shapes and dtypes in boxes (`nn.LogicallyPartitioned`) that name their axes."""
    return jax.eval_shape(lambda key: _init(model, key), jax.random.key(0))


def _init(model: Transformer, key: jax.Array) -> Params:
    zeros = jnp.zeros((1, 1), jnp.int32)
    return model.init(key, zeros, zeros, training_attention(Sight.within(zeros)))["params"]
