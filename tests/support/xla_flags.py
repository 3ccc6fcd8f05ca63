"""Flags of XLA that this machine's version knows; one that it does not know makes it abort the process."""

import os
import re
import subprocess
import sys
from functools import cache

_START_XLA = "from jaxlib import xla_client; xla_client.make_cpu_client()"


@cache
def known_flags(*flags: str) -> tuple[str, ...]:
    """Those of the flags, such as --xla_a=1, that XLA accepts in XLA_FLAGS. A process is started to ask.

    Raises RuntimeError if XLA does not start for another reason.
    """
    environment = os.environ | {"XLA_FLAGS": " ".join(flags)}
    command = [sys.executable, "-c", _START_XLA]
    started = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, errors="replace")
    if started.returncode == 0:
        return flags
    named = re.search(r"Unknown flags? in XLA_FLAGS: (.*)", started.stderr)
    if named is None:
        raise RuntimeError(f"XLA does not start: {started.stderr.strip()}")
    return tuple(flag for flag in flags if flag not in named[1].split())
