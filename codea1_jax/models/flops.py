"""Parameters and FLOPs of a model, counted by hand. A multiplication and an addition are two FLOPs."""

from __future__ import annotations

from codea1_jax.config import LoRAConfig
from codea1_jax.models.architecture import Architecture

Number = int | float


def layer_matrices(config: Architecture) -> int:
    """Elements of one layer's matrices: what each token is multiplied with."""
    width, heads, kv_heads = config.hidden_size, config.num_heads, config.num_kv_heads
    attention = width * config.head_dim * (2 * heads + 2 * kv_heads)
    return attention + 3 * width * config.intermediate_size


def parameters(config: Architecture) -> int:
    """Parameters of the model."""
    width = config.hidden_size
    biases = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
    tables = (1 if config.tie_embeddings else 2) * config.vocab_size * width
    return config.num_layers * (layer_matrices(config) + biases + 2 * width) + tables + width


def adapter_parameters(config: Architecture, lora: LoRAConfig) -> int:
    """Parameters of one policy's adapters."""
    width, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    sides = {
        "q_proj": width + config.num_heads * dim,
        "k_proj": width + config.num_kv_heads * dim,
        "v_proj": width + config.num_kv_heads * dim,
        "o_proj": config.num_heads * dim + width,
        "gate_proj": width + inner,
        "up_proj": width + inner,
        "down_proj": inner + width,
    }
    return config.num_layers * lora.rank * sum(sides[target] for target in lora.targets)


def layers_flops(config: Architecture, tokens: Number, seen: Number) -> Number:
    """FLOPs of all layers, forward, over `tokens` that together look at `seen` places."""
    attention = 4 * config.num_heads * config.head_dim * seen
    return config.num_layers * (2 * layer_matrices(config) * tokens + attention)


def vocabulary_flops(config: Architecture, tokens: Number) -> Number:
    """FLOPs of the logits of `tokens`."""
    return 2 * config.vocab_size * config.hidden_size * tokens


def causal(length: Number) -> Number:
    """Places that the tokens of a sequence look at together."""
    return length * (length + 1) / 2


def cache_bytes(config: Architecture, itemsize: int) -> int:
    """Keys and values of one token in all layers."""
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim * itemsize
