"""The command line. Results go to standard output, everything else to standard error.

Exit codes: 0 done, 2 bad input (one line says what and how to mend it), 130 stopped and resumable.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from codea1_jax.run.config import ConfigError, dump, load, preset_names
from codea1_jax.run.interrupts import Interrupted
from sandbox import SandboxUnavailable

logger = logging.getLogger(__name__)

BAD_INPUT = 2
STOPPED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (ConfigError, SandboxUnavailable, FileNotFoundError, ValueError) as error:
        print(f"codea1: {error}", file=sys.stderr)
        return BAD_INPUT
    except Interrupted as error:
        print(f"codea1: stopped by {error}; go on with the same command and --resume", file=sys.stderr)
        return STOPPED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="codea1", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train both models")
    train.add_argument("preset", help="a preset's name or a YAML file")
    train.add_argument("overrides", nargs="*", metavar="key=value", help="for example rollout.samples=4")
    train.add_argument("--resume", action="store_true", help="go on from the run's last checkpoint")
    train.add_argument("--dry-run", action="store_true", help="print the resolved configuration and stop")
    train.set_defaults(run=_train)

    presets = commands.add_parser("presets", help="list the shipped presets")
    presets.set_defaults(run=_presets)

    report = commands.add_parser("report", help="write a run's report.html")
    report.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    report.add_argument("--out", type=Path, help="the file to write")
    report.set_defaults(run=_report)
    return parser


def _presets(options: argparse.Namespace) -> int:
    print("\n".join(preset_names()))
    return 0


def _report(options: argparse.Namespace) -> int:
    from codea1_jax.run.report import build_report

    print(build_report(options.runs, options.out))
    return 0


def _train(options: argparse.Namespace) -> int:
    from codea1_jax.config import Config

    config = load(Config, options.preset, options.overrides)
    if options.dry_run:
        print(dump(config), end="")
        return 0
    ...
