"""A model of random weights on disk, where a published one would be: for rehearsals."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer, init_params
from codea1_jax.models.policy import Policy, save_policy
from codea1_jax.models.tokenizer import Tokenizer


def write_random_model(
    directory: Path, shape: Architecture, tokenizer: Tokenizer, dtype: DTypeLike = jnp.float32
) -> None:
    """Writes random weights, configuration and tokenizer as Hugging Face does; a directory is whole or not there.

    dtype: of the weights.
    """
    model = Transformer(shape, param_dtype=jnp.dtype(dtype))
    unfinished = directory.with_name(f".{directory.name}.{os.getpid()}.tmp")
    try:
        params = init_params(model, jax.random.key(0))
        save_policy(unfinished, Policy(model, tokenizer), params)
        unfinished.replace(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
