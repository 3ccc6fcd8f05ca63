"""The shape of a Qwen2 model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Architecture:
    """Architecture of a Qwen2 / Qwen2.5 decoder, in the terms of its Hugging Face `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope_theta: float = 1_000_000.0
    rms_norm_eps: float = 1e-6
    tie_embeddings: bool = True
    max_position_embeddings: int = 32_768

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_heads={self.num_heads} must be a multiple of num_kv_heads={self.num_kv_heads}")
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} must be even: rotary embeddings turn pairs")

    @property
    def group_size(self) -> int:
        """Query heads served by one key/value head."""
        return self.num_heads // self.num_kv_heads

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> Architecture:
        """Reads a Hugging Face `config.json` of type qwen2 (transformers 4 and 5 spell RoPE differently)."""
        if config.get("model_type") != "qwen2":
            raise ValueError(f"model_type is {config.get('model_type')!r}; only 'qwen2' is supported")
        if config.get("use_sliding_window"):
            raise ValueError("use_sliding_window=true is not supported; Qwen2.5-Coder does not use it")
        rope = (config.get("rope_scaling") or {}) | (config.get("rope_parameters") or {})
        if _scales(rope):
            raise ValueError(f"RoPE scaling {rope} is not supported; use the model's native context length")
        heads = int(config["num_attention_heads"])
        return cls(
            vocab_size=int(config["vocab_size"]),
            hidden_size=int(config["hidden_size"]),
            intermediate_size=int(config["intermediate_size"]),
            num_layers=int(config["num_hidden_layers"]),
            num_heads=heads,
            num_kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
            rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
            rms_norm_eps=float(config["rms_norm_eps"]),
            tie_embeddings=bool(config.get("tie_word_embeddings", False)),
            max_position_embeddings=int(config["max_position_embeddings"]),
        )

    def to_hf(self, dtype: str) -> dict[str, Any]:
        """The Hugging Face `config.json`, in the spelling that transformers 4, 5 and vLLM all read."""
        return {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rope_theta": self.rope_theta,
            "rms_norm_eps": self.rms_norm_eps,
            "tie_word_embeddings": self.tie_embeddings,
            "max_position_embeddings": self.max_position_embeddings,
            "use_sliding_window": False,
            "torch_dtype": dtype,
        }


def _scales(rope: Mapping[str, Any]) -> bool:
    """Whether RoPE's settings ask for more than its base; without a type, whether they hold anything else."""
    kind = rope.get("rope_type") or rope.get("type")
    return kind != "default" if kind else any(rope[key] is not None for key in rope.keys() - {"rope_theta"})
