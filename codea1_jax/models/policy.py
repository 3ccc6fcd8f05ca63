import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from codea1_jax.common.errors import UserError
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Params, Transformer, init_params
from codea1_jax.models.tokenizer import Tokenizer, load_tokenizer
from codea1_jax.models.weights import FILE_BYTES, read_config, save_params


@dataclass(frozen=True)
class Policy:
    """What plays a role of the game: an architecture and a tokenizer. Parameters are passed alongside."""

    model: Transformer
    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        used, held = self.tokenizer.vocab_size, self.model.architecture.vocab_size
        if used > held:
            where = "" if self.tokenizer.source is None else f"{self.tokenizer.source}: "
            raise UserError(
                f"{where}the tokenizer uses {used} ids, but the model's vocab_size is {held}; take tokenizer and "
                "config.json of one model"
            )


def pretrained_policy(
    directory: Path,
    *,
    dtype: DTypeLike = jnp.float32,
    remat: str = "none",
    attention: str = "auto",
    enable_thinking: bool | None = None,
) -> Policy:
    model = Transformer(read_config(directory), jnp.dtype(dtype), jnp.dtype(jnp.float32), remat, attention)
    return Policy(model, load_tokenizer(directory, enable_thinking))


def save_policy(directory: Path, policy: Policy, params: Params, file_bytes: int = FILE_BYTES) -> None:
    save_params(directory, params, policy.model.architecture, file_bytes, policy.tokenizer.special_ids)
    if jax.process_index() == 0:
        policy.tokenizer.save(directory)


def write_random_model(
    directory: Path, architecture: Architecture, tokenizer: Tokenizer, dtype: DTypeLike = jnp.float32
) -> None:
    """Writes a Hugging Face directory of random weights of this type, as a whole or not at all: for rehearsals."""
    model = Transformer(architecture, param_dtype=jnp.dtype(dtype))
    unfinished = directory.with_name(f".{directory.name}.{os.getpid()}.tmp")
    try:
        save_policy(unfinished, Policy(model, tokenizer), init_params(model, jax.random.key(0)))
        unfinished.replace(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
