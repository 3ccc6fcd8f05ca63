"""`codea1 convert`: a policy from one form on disk to another."""

from __future__ import annotations

import argparse
from pathlib import Path

from codea1_jax.cli._arguments import Commands
from codea1_jax.cli._runtime import DONE


def add(commands: Commands) -> None:
    """Registers the command."""
    parser = commands.add_parser("convert", help="models from Hugging Face's form to the Flax form and back")
    parser.add_argument("source", help="a model directory of either form, a Hub id (owner/name), or a run's directory")
    parser.add_argument("destination", type=Path, help="a fresh directory")
    parser.add_argument("--to", choices=("hf", "flax"), help="default: flax from Hugging Face's form, else hf")
    parser.add_argument("--role", help="which of a run's policies: code or test")
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16", "float16"), help="type of the weights; default: as in the source"
    )
    parser.add_argument("--file-gb", type=_size, default=5.0, help="longest file of safetensors; default: %(default)s")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from codea1_jax.training.convert import convert, open_policy

    source = open_policy(options.source, options.role)
    form = options.to or ("flax" if source.form == "hf" else "hf")
    convert(source, options.destination, form, options.dtype, int(options.file_gb * 10**9))
    print(options.destination)
    return DONE


def _size(text: str) -> float:
    """A positive number of gigabytes. Raises ArgumentTypeError."""
    size = float(text)
    if not size > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a size")
    return size
