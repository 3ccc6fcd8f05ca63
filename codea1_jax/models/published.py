"""The shapes of the published Qwen2.5 and Qwen2.5-Coder sizes, from their Hugging Face config.json files.

A model that is loaded brings its own shape; these are for plans and tests, which load none.
"""

from __future__ import annotations

from codea1_jax.models.architecture import Architecture


def _config(
    *, hidden: int, inner: int, layers: int, heads: int, kv_heads: int, head_dim: int, tied: bool
) -> Architecture:
    return Architecture(
        # The larger sizes pad the 151,665 tokens further.
        vocab_size=151_936 if tied else 152_064,
        hidden_size=hidden,
        intermediate_size=inner,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        tie_embeddings=tied,
    )


QWEN25 = {
    "0.5b": _config(hidden=896, inner=4864, layers=24, heads=14, kv_heads=2, head_dim=64, tied=True),
    "1.5b": _config(hidden=1536, inner=8960, layers=28, heads=12, kv_heads=2, head_dim=128, tied=True),
    "3b": _config(hidden=2048, inner=11_008, layers=36, heads=16, kv_heads=2, head_dim=128, tied=True),
    "7b": _config(hidden=3584, inner=18_944, layers=28, heads=28, kv_heads=4, head_dim=128, tied=False),
    "14b": _config(hidden=5120, inner=13_824, layers=48, heads=40, kv_heads=8, head_dim=128, tied=False),
    "32b": _config(hidden=5120, inner=27_648, layers=64, heads=40, kv_heads=8, head_dim=128, tied=False),
}

# The Hub's names for them: Qwen/Qwen2.5-1.5B, Qwen/Qwen2.5-Coder-1.5B-Instruct and so on.
HUB_SHAPES = {
    f"Qwen/Qwen2.5{family}-{size.upper()}{tuning}": shape
    for size, shape in QWEN25.items()
    for family in ("", "-Coder")
    for tuning in ("", "-Instruct")
}
