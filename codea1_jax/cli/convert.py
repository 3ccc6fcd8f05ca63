import argparse
from pathlib import Path

from codea1_jax.cli._runtime import DONE
from codea1_jax.training.convert import convert, open_policy


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a run's directory, a model directory, or a Hub id (owner/name)")
    parser.add_argument("destination", type=Path, help="a fresh directory")
    parser.add_argument("--role", help="which of a run's policies: code or test")
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16", "float16"), help="type of the weights; default: as in the source"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    convert(open_policy(options.source, options.role), options.destination, options.dtype)
    print(options.destination)
    return DONE
