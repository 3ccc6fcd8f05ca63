"""The architectures of the models that presets start from, so that a plan of one needs no network."""

from __future__ import annotations

from codea1_jax.models.architecture import Architecture

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
}
