"""`codea1 sandbox`: the judge by itself."""

from __future__ import annotations

import argparse
from pathlib import Path

from codea1_jax.cli._arguments import Commands, port, positive

VARIABLE = "CODEA1_SANDBOX_TOKEN"  # `sandbox.remote.bearer.VARIABLE`, whose import would slow down --help


def add(commands: Commands) -> None:
    """Registers the commands."""
    judge = commands.add_parser("sandbox", help="the judge by itself").add_subparsers(required=True, metavar="COMMAND")
    check = judge.add_parser("check", help="check which parts of the judge work on this host, and suggest fixes")
    check.set_defaults(run=_check)

    serve = judge.add_parser("serve", help="judge over HTTP, for runs with sandbox.backend=http")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on; default: %(default)s")
    serve.add_argument("--port", type=port, default=8787, help="default: %(default)s")
    serve.add_argument("--token-file", type=Path, help=f"the bearer token clients must send; default: ${VARIABLE}")
    serve.add_argument("--workers", type=positive, help="jails kept; default: one per core")
    serve.add_argument(
        "--preload", nargs="+", default=(), metavar="PACKAGE", help="packages that programs may import (numpy, ...)"
    )
    serve.add_argument(
        "--max-seconds", type=positive, default=600, help="most that a request may ask for; default: %(default)s"
    )
    serve.add_argument("--max-memory-mb", type=positive, help="the same of memory; default: what this host has")
    serve.set_defaults(run=_serve)


def _check(options: argparse.Namespace) -> int:
    from codea1_judge import cli

    return cli.check(options)


def _serve(options: argparse.Namespace) -> int:
    from codea1_judge import cli

    return cli.serve(options)
