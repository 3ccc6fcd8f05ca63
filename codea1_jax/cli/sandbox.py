"""`codea1 sandbox`: the judge by itself."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from codea1_jax.cli._arguments import Commands, port, positive
from codea1_jax.cli._runtime import BAD_INPUT, DONE
from codea1_jax.common.errors import UserError

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
    serve.set_defaults(run=_serve)


def _check(_options: argparse.Namespace) -> int:
    from sandbox.host.doctor import report

    diagnosis = report()
    print(diagnosis)
    return DONE if diagnosis.jailed else BAD_INPUT


def _serve(options: argparse.Namespace) -> int:
    from sandbox import SandboxPool
    from sandbox.remote.bearer import read_token

    try:
        from sandbox.remote.server import serve
    except ModuleNotFoundError as error:
        raise UserError(f"serving needs {error.name}: pip install 'codea1-jax[serve]'") from error
    token = read_token(options.token_file)
    with SandboxPool(options.workers or os.cpu_count(), preload=options.preload) as pool:

        def on_ready() -> None:
            kept = f"{pool.workers} {pool.backend} workers"
            print(f"codea1: judging with {kept} at {options.host}, port {options.port}", file=sys.stderr)

        serve(pool, options.host, options.port, token, on_ready)
    return DONE
