"""What several commands take and check alike."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # argparse has no public name for it


def add_preset(parser: argparse.ArgumentParser) -> None:
    """A preset and overrides of its values."""
    parser.add_argument("preset", help="a preset's name or a YAML file")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="for example rollout.samples=4")


def port(text: str) -> int:
    """A TCP port. Raises ArgumentTypeError."""
    if not (text.isdecimal() and 0 < int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return int(text)


def positive(text: str) -> int:
    """A count. Raises ArgumentTypeError."""
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)
