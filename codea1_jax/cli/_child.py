"""One command in its own process, which does not outlive the one that started it.

    python -m codea1_jax.cli._child CORES ARGUMENTS...

CORES, as "0,1", are the processor cores that the command and its jails may use.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Ties this process to its parent and its cores, then runs the command line."""
    cores, *arguments = sys.argv[1:]
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # on which a training run saves and stops
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    if os.getppid() != parent:
        return 1  # it died before it could be watched

    from codea1_jax.cli import main  # JAX counts the cores when it is imported

    return main(arguments)


if __name__ == "__main__":
    sys.exit(main())
