"""The architectures of the models that presets start from, so that a plan of one needs no network."""

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.rope import Llama3Scaling


def _qwen3(width: int, feed_forward: int, layers: int, heads: int, *, tied: bool = True) -> Architecture:
    return Architecture(
        *(151_936, width, feed_forward, layers, heads, 8, 128),
        family="qwen3",
        qkv_bias=False,
        qk_norm=True,
        tie_embeddings=tied,
        max_position_embeddings=40_960,
    )


def _llama3(
    width: int, feed_forward: int, layers: int, heads: int, head_dim: int, scaling: float, *, tied: bool = True
) -> Architecture:
    return Architecture(
        *(128_256, width, feed_forward, layers, heads, 8, head_dim),
        family="llama",
        qkv_bias=False,
        rope_theta=5e5,
        rope_scaling=Llama3Scaling(scaling, 1.0, 4.0, 8192),
        rms_norm_eps=1e-5,
        tie_embeddings=tied,
        max_position_embeddings=131_072,
    )


# In the order of the arguments: vocabulary, width, feed-forward, layers, heads, key/value heads, size of a head.
QWEN25 = {
    "0.5b": Architecture(151_936, 896, 4864, 24, 14, 2, 64),
    "1.5b": Architecture(151_936, 1536, 8960, 28, 12, 2, 128),
    "3b": Architecture(151_936, 2048, 11_008, 36, 16, 2, 128),
    # These pad the 151,665 tokens further.
    "7b": Architecture(152_064, 3584, 18_944, 28, 28, 4, 128, tie_embeddings=False),
    "14b": Architecture(152_064, 5120, 13_824, 48, 40, 8, 128, tie_embeddings=False),
    "32b": Architecture(152_064, 5120, 27_648, 64, 40, 8, 128, tie_embeddings=False),
}

QWEN3 = {
    "0.6b": _qwen3(1024, 3072, 28, 16),
    "1.7b": _qwen3(2048, 6144, 28, 16),
    "4b": _qwen3(2560, 9728, 36, 32),
    "8b": _qwen3(4096, 12_288, 36, 32, tied=False),
}

LLAMA3 = {
    "3.2-1B": _llama3(2048, 8192, 16, 32, 64, 32.0),
    "3.2-3B": _llama3(3072, 8192, 28, 24, 128, 32.0),
    "3.1-8B": _llama3(4096, 14_336, 32, 32, 128, 8.0, tied=False),
}

SMOLLM2_135M = Architecture(
    *(49_152, 576, 1536, 30, 9, 3, 64),
    family="llama",
    qkv_bias=False,
    rope_theta=1e5,
    rms_norm_eps=1e-5,
    max_position_embeddings=8192,
)

HUB_SHAPES = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": SMOLLM2_135M,
    **{
        f"Qwen/Qwen2.5-{name}{size.upper()}{tuning}": shape
        for size, shape in QWEN25.items()
        for name in ("", "Coder-")
        for tuning in ("", "-Instruct")
    },
    **{f"Qwen/Qwen3-{size.upper()}": shape for size, shape in QWEN3.items()},
    **{f"meta-llama/Llama-{name}-Instruct": shape for name, shape in LLAMA3.items()},
}
