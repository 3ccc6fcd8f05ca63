"""`codea1 presets`: what can be trained out of the box."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from codea1_jax.cli.runtime import DONE
from codea1_jax.run.config import preset_names

if TYPE_CHECKING:
    from codea1_jax.cli.arguments import Commands


def add(commands: Commands) -> None:
    """Registers the command."""
    commands.add_parser("presets", help="list the shipped presets").set_defaults(run=_run)


def _run(_options: argparse.Namespace) -> int:
    print("\n".join(preset_names()))
    return DONE
