"""Qwen2.5's tokenizer, made from its merges by transformers' own class, and a cut of Qwen2.5-Coder-0.5B with it.

The merges are Qwen's, under the Apache License 2.0, as this file derived them from the ranks in the package dashscope
2.0.2 (resources/qwen.tiktoken) in commit f14b8d6e.
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import AddedToken
from transformers import Qwen2Tokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from codea1_jax.models.decoder import Transformer, abstract_params
from codea1_jax.models.policy import Policy, save_policy
from codea1_jax.models.published import QWEN25
from codea1_jax.models.tokenizer import Tokenizer

FIXTURES = Path(__file__).parents[1] / "fixtures" / "qwen"
LETTERS = tuple(bytes_to_unicode().values())  # every byte as merges write it, in the order of ids
# The special tokens follow the merged ones in this order, and then others, which texts may contain. A conversation uses
# the second and the third; a response ends with the third, or the first.
SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>"),
    *("<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>"),
)
ADDED = (
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>"),
)
SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
CHAT_TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\n" + SYSTEM + "<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def read_merges() -> list[tuple[str, str]]:
    """All of Qwen's, in order: the token of merge i has the id 256 + i."""
    lines = lzma.decompress((FIXTURES / "merges.txt.xz").read_bytes()).decode().splitlines()
    return [(left, right) for left, right in (line.split(" ") for line in lines)]


def make_tokenizer(merges: Sequence[tuple[str, str]]) -> Tokenizer:
    """The tokenizer of these merges, with Qwen's special tokens after them and its chat template."""
    tokens = (*LETTERS, *(left + right for left, right in merges))
    ids = {token: i for i, token in enumerate(tokens)}
    hf = Qwen2Tokenizer(ids, list(merges), unk_token=None, eos_token=None, pad_token=None)
    hf.add_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    hf.add_tokens([AddedToken(token, special=False, normalized=False) for token in ADDED])
    hf.eos_token, hf.pad_token, hf.chat_template = SPECIAL[2], SPECIAL[0], CHAT_TEMPLATE
    return Tokenizer(hf, (len(tokens) + 2, len(tokens)), len(tokens))


def write_cut(directory: Path) -> None:
    """Two layers of the model's shape, with its tokenizer, as a Hugging Face directory. The weights are random."""
    model = Transformer(replace(QWEN25["0.5b"], num_layers=2))
    draw = np.random.PCG64(0)

    def random(path: tuple[Any, ...], leaf: jax.ShapeDtypeStruct) -> jax.Array:
        mean, scale = {"embed_tokens": (0, 0.2), "kernel": (0, 0.1), "bias": (0, 1), "weight": (1, 0.5)}[path[-1].key]
        size = int(np.prod(leaf.shape))
        values = draw.random_raw(-(-size // 8)).view(np.int8)[:size].reshape(leaf.shape) / np.float32(128)
        return jnp.asarray(mean + np.float32(scale) * values, jnp.bfloat16)

    params = jax.tree_util.tree_map_with_path(random, abstract_params(model))
    save_policy(directory, Policy(model, make_tokenizer(read_merges())), params)
