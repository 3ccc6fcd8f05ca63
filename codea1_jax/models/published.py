"""The architectures of published models, from their Hugging Face config.json files, by their names on the Hub.

A model that is loaded brings its own; these are for plans and tests, which load none.
"""

from __future__ import annotations

from functools import partial

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.rope import LinearScaling, Llama3Scaling

# In the order of the arguments: vocabulary, width, feed-forward, layers, heads, key/value heads, size of a head.
_qwen2 = partial(Architecture, family="qwen2")
_qwen3 = partial(Architecture, family="qwen3", qkv_bias=False, qk_norm=True, max_position_embeddings=40_960)
_llama = partial(Architecture, family="llama", qkv_bias=False)


def _llama3(*sizes: int, factor: float, tied: bool) -> Architecture:
    scaling = Llama3Scaling(factor, 1.0, 4.0, 8192)
    more = {"rope_theta": 5e5, "rope_scaling": scaling, "rms_norm_eps": 1e-5, "max_position_embeddings": 131_072}
    return _llama(*sizes, tie_embeddings=tied, **more)


def _smollm2(*sizes: int, theta: float) -> Architecture:
    return _llama(*sizes, rope_theta=theta, rms_norm_eps=1e-5, max_position_embeddings=8192)


def _deepseek_coder(*sizes: int) -> Architecture:
    more = {"rope_theta": 1e5, "rope_scaling": LinearScaling(4.0), "max_position_embeddings": 16_384}
    return _llama(*sizes, tie_embeddings=False, **more)


QWEN25 = {
    "0.5b": _qwen2(151_936, 896, 4864, 24, 14, 2, 64),
    "1.5b": _qwen2(151_936, 1536, 8960, 28, 12, 2, 128),
    "3b": _qwen2(151_936, 2048, 11_008, 36, 16, 2, 128),
    # These pad the 151,665 tokens further.
    "7b": _qwen2(152_064, 3584, 18_944, 28, 28, 4, 128, tie_embeddings=False),
    "14b": _qwen2(152_064, 5120, 13_824, 48, 40, 8, 128, tie_embeddings=False),
    "32b": _qwen2(152_064, 5120, 27_648, 64, 40, 8, 128, tie_embeddings=False),
}
_QWEN3 = {
    "0.6B": _qwen3(151_936, 1024, 3072, 28, 16, 8, 128),
    "1.7B": _qwen3(151_936, 2048, 6144, 28, 16, 8, 128),
    "4B": _qwen3(151_936, 2560, 9728, 36, 32, 8, 128),
    "8B": _qwen3(151_936, 4096, 12_288, 36, 32, 8, 128, tie_embeddings=False),
    "14B": _qwen3(151_936, 5120, 17_408, 40, 40, 8, 128, tie_embeddings=False),
    "32B": _qwen3(151_936, 5120, 25_600, 64, 64, 8, 128, tie_embeddings=False),
}
_LLAMA3 = {
    "3.2-1B": _llama3(128_256, 2048, 8192, 16, 32, 8, 64, factor=32.0, tied=True),
    "3.2-3B": _llama3(128_256, 3072, 8192, 28, 24, 8, 128, factor=32.0, tied=True),
    "3.1-8B": _llama3(128_256, 4096, 14_336, 32, 32, 8, 128, factor=8.0, tied=False),
}
_SMOLLM2 = {
    "135M": _smollm2(49_152, 576, 1536, 30, 9, 3, 64, theta=1e5),
    "360M": _smollm2(49_152, 960, 2560, 32, 15, 5, 64, theta=1e5),
    "1.7B": _smollm2(49_152, 2048, 8192, 24, 32, 32, 64, theta=130_000.0),
}
_DEEPSEEK_CODER = {
    "1.3b": _deepseek_coder(32_256, 2048, 5504, 24, 16, 16, 128),
    "6.7b": _deepseek_coder(32_256, 4096, 11_008, 32, 32, 32, 128),
}
_SMOLLM3 = _llama(
    *(128_256, 2048, 11_008, 36, 16, 4, 128),
    family="smollm3",
    layers_without_rope=tuple(range(3, 36, 4)),
    rope_theta=5e6,
    max_position_embeddings=65_536,
)

_NAMES = (
    ("Qwen/Qwen2.5-{}", {size.upper(): shape for size, shape in QWEN25.items()}, ("", "-Instruct")),
    ("Qwen/Qwen2.5-Coder-{}", {size.upper(): shape for size, shape in QWEN25.items()}, ("", "-Instruct")),
    ("Qwen/Qwen3-{}", _QWEN3, ("", "-Base")),
    ("meta-llama/Llama-{}", _LLAMA3, ("", "-Instruct")),
    ("HuggingFaceTB/SmolLM2-{}", _SMOLLM2, ("", "-Instruct")),
    ("HuggingFaceTB/SmolLM3-{}", {"3B": _SMOLLM3}, ("",)),
    ("deepseek-ai/deepseek-coder-{}", _DEEPSEEK_CODER, ("-base", "-instruct")),
)
HUB_SHAPES = {
    name.format(size) + tuning: shape
    for name, shapes, tunings in _NAMES
    for size, shape in shapes.items()
    for tuning in tunings
}
