"""A random two-layer Qwen2 with Qwen's own vocabulary: real prompts at a size that a laptop trains in seconds.

python -m codea1_jax.reproduce.tiny_model DIRECTORY
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from codea1_jax.common.errors import UserError
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.published import QWEN25
from codea1_jax.models.qwen_vocabulary import make_tokenizer, read_ranks
from codea1_jax.models.random_model import write_random_model

SHAPE = Qwen2Config(
    vocab_size=QWEN25["1.5b"].vocab_size,
    hidden_size=32,
    intermediate_size=64,
    num_layers=2,
    num_heads=2,
    num_kv_heads=1,
    head_dim=16,
    tie_embeddings=True,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the model. Returns 0, or 2 with one line that names the reason."""
    parser = argparse.ArgumentParser(prog="python -m codea1_jax.reproduce.tiny_model", description=__doc__)
    parser.add_argument("directory", type=Path, help="where the model is written, in Hugging Face's form")
    options = parser.parse_args(arguments)
    try:
        write_random_model(options.directory, SHAPE, make_tokenizer(read_ranks()))
    except UserError as error:
        print(f"codea1: --model tiny: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
