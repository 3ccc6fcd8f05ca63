"""`codea1-judge check` and `serve`, which the trainer's command line has as `codea1 sandbox`.

Exit codes: 0 done; 1 failed for an external reason; 2 bad input, or programs cannot be judged here (one line names it
and the fix). What a command needs is imported when it runs, because the trainer's `--help` also lists its options.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # argparse has no public name for it

VARIABLE = "CODEA1_SANDBOX_TOKEN"  # `sandbox.remote.bearer.VARIABLE`


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("codea1-judge", description="Judge untrusted Python programs.", allow_abbrev=False)
    add_commands(parser.add_subparsers(required=True, metavar="COMMAND"))
    options = parser.parse_args(arguments)
    from data_pipeline.problem import visible  # noqa: PLC0415
    from sandbox import SandboxError, SandboxUnavailable  # noqa: PLC0415

    try:
        return options.run(options)
    except (OSError, SandboxError, ValueError) as error:
        print(visible(f"codea1-judge: {error}"), file=sys.stderr)
        return 2 if isinstance(error, SandboxUnavailable | ValueError) else 1


def check(_options: argparse.Namespace) -> int:
    from sandbox.host.doctor import report  # noqa: PLC0415

    diagnosis = report()
    print(diagnosis)
    return 0 if diagnosis.jailed else 2


def serve(options: argparse.Namespace) -> int:
    """Judges over HTTP until stopped. Raises SandboxUnavailable, SandboxError and OSError."""
    from sandbox import SandboxPool, SandboxUnavailable  # noqa: PLC0415
    from sandbox.remote.bearer import read_token  # noqa: PLC0415

    try:
        from codea1_judge.submit import submit  # noqa: PLC0415  (needs aiohttp)
        from sandbox.remote.server import ENDPOINTS, most_limits  # noqa: PLC0415
        from sandbox.remote.server import serve as serve_pool  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SandboxUnavailable(
            f"serving needs {error.name}: pip install 'codea1-judge[serve]' or 'codea1-jax[serve]'"
        ) from error
    token = read_token(options.token_file)
    with SandboxPool(options.workers or os.cpu_count(), preload=options.preload) as pool:

        def on_ready() -> None:
            kept = f"{pool.workers} {pool.backend} workers"
            print(f"codea1-judge: judging with {kept} at {options.host}, port {options.port}", file=sys.stderr)

        most = most_limits(options.max_seconds, options.max_memory_mb)
        serve_pool(pool, options.host, options.port, token, on_ready, {**ENDPOINTS, "/submit": submit}, most)
    return 0


def add_commands(commands: Commands) -> None:
    checked = commands.add_parser("check", help="check which parts of the judge work on this host, and suggest fixes")
    checked.set_defaults(run=check)
    served = commands.add_parser("serve", help="judge over HTTP", allow_abbrev=False)
    served.add_argument("--host", default="127.0.0.1", help="address to listen on; default: %(default)s")
    served.add_argument("--port", type=port, default=8787, help="default: %(default)s")
    served.add_argument("--token-file", type=Path, help=f"the bearer token clients must send; default: ${VARIABLE}")
    served.add_argument("--workers", type=positive, help="jails kept; default: one per core")
    served.add_argument(
        "--preload", nargs="+", default=(), metavar="PACKAGE", help="packages that programs may import (numpy, ...)"
    )
    served.add_argument(
        "--max-seconds", type=positive, default=600, help="most that a request may ask for; default: %(default)s"
    )
    served.add_argument("--max-memory-mb", type=positive, help="the same of memory; default: what this host has")
    served.set_defaults(run=serve)


def port(text: str) -> int:
    if not (text.isdecimal() and 0 < int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return int(text)


def positive(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)
