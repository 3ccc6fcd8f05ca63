"""Tries the configured judge on a program: `python -m launch.judge PRESET [key=value ...]`."""

from __future__ import annotations

import sys

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load
from codea1_jax.training.judges import make_judge
from sandbox import SandboxError, SandboxUnavailable
from sandbox.host.doctor import try_out


def main(preset: str, *overrides: str) -> int:
    """Returns 0 if the judge works, else 2; prints the reason on standard error."""
    try:
        with make_judge(load(Config, preset, overrides).sandbox) as judge:
            print(try_out(judge), file=sys.stderr)
    except (UserError, SandboxError, SandboxUnavailable) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
