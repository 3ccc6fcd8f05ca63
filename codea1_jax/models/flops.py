"""Parameters and FLOPs of a model, counted by hand. A multiplication and an addition are two FLOPs."""

from codea1_jax.config import LoRAConfig
from codea1_jax.models.architecture import Architecture

Number = int | float


def layer_matrices(model: Architecture) -> int:
    """Elements of one layer's matrices: what each token is multiplied with."""
    width, heads, kv_heads = model.hidden_size, model.num_heads, model.num_kv_heads
    attention = width * model.head_dim * (2 * heads + 2 * kv_heads)
    return attention + 3 * width * model.intermediate_size


def parameters(model: Architecture) -> int:
    width = model.hidden_size
    biases = model.qkv_bias * (model.num_heads + 2 * model.num_kv_heads) * model.head_dim
    norms = 2 * width + model.qk_norm * 2 * model.head_dim
    tables = (1 if model.tie_embeddings else 2) * model.vocab_size * width
    return model.num_layers * (layer_matrices(model) + biases + norms) + tables + width


def adapter_parameters(model: Architecture, lora: LoRAConfig) -> int:
    width, inner, dim = model.hidden_size, model.intermediate_size, model.head_dim
    attention = 2 * (width + model.num_heads * dim) + 2 * (width + model.num_kv_heads * dim)
    return model.num_layers * lora.rank * (attention + 3 * (width + inner))


def layers_flops(model: Architecture, tokens: Number, seen: Number) -> Number:
    """FLOPs of all layers, forward, over `tokens` that together look at `seen` places."""
    attention = 4 * model.num_heads * model.head_dim * seen
    return model.num_layers * (2 * layer_matrices(model) * tokens + attention)


def vocabulary_flops(model: Architecture, tokens: Number) -> Number:
    return 2 * model.vocab_size * model.hidden_size * tokens


def causal(length: Number) -> Number:
    """Places that the tokens of a sequence look at together."""
    return length * (length + 1) / 2


def cache_bytes(model: Architecture, itemsize: int) -> int:
    """Of the keys and values of one token in all layers."""
    return 2 * model.num_layers * model.num_kv_heads * model.head_dim * itemsize
