"""A policy: a model and the tokenizer through which it reads prompts and writes responses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp

from codea1_jax.models.attention import training_attention
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.qwen2 import Params, Qwen2
from codea1_jax.models.tokenizer import Tokenizer, load_tokenizer


@dataclass(frozen=True)
class Policy:
    """What plays a role of the game: an architecture and a tokenizer. Parameters are passed beside it."""

    model: Qwen2
    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        used, held = self.tokenizer.vocab_size, self.model.config.vocab_size
        if used > held:
            raise ValueError(f"the tokenizer uses {used} ids, but the model's vocab_size is {held}")


def init_params(model: Qwen2, key: jax.Array) -> Params:
    """Random parameters, as a plain nested dict of arrays."""
    zeros = jnp.zeros((1, 1), jnp.int32)
    return nn.unbox(model.init(key, zeros, zeros, training_attention(zeros)))["params"]


def read_config(directory: Path) -> Qwen2Config:
    """The architecture that a Hugging Face model directory's `config.json` states."""
    return Qwen2Config.from_hf(json.loads((directory / "config.json").read_text()))


def pretrained_policy(
    directory: Path,
    *,
    dtype: jnp.dtype = jnp.float32,
    param_dtype: jnp.dtype = jnp.float32,
    remat: str = "none",
) -> Policy:
    """The policy of a Hugging Face model directory, without its weights."""
    model = Qwen2(read_config(directory), dtype, param_dtype, remat)
    return Policy(model, load_tokenizer(directory))
