from dataclasses import dataclass

from codea1_jax.models.rope import RopeScaling


@dataclass(frozen=True)
class Architecture:
    """A decoder of RMSNorm, RoPE, grouped-query attention and SwiGLU, in the terms of a Hugging Face `config.json`.

    family: the entry of `families` that reads and writes its `config.json`.
    qkv_bias: whether the projections to queries, keys and values add a bias.
    qk_norm: whether RMSNorm is applied to every head's queries and keys.
    layers_without_rope: numbers of the layers, from 0, whose queries and keys are not rotated.
    """

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
    family: str = "qwen2"
    qkv_bias: bool = True
    qk_norm: bool = False
    rope_scaling: RopeScaling | None = None
    layers_without_rope: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_heads={self.num_heads} must be a multiple of num_kv_heads={self.num_kv_heads}")
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} must be even: rotary embeddings turn pairs")

    @property
    def group_size(self) -> int:
        return self.num_heads // self.num_kv_heads
