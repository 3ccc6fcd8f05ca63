"""Python in its own process, which does not outlive the one that started it.

    python -m codea1_jax.cli._child CORES ARGUMENTS...

CORES, as "0,1", are the processor cores that the process and its jails may use; the rest are Python's own arguments.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> int:
    """Ties this process to its parent and its cores, and becomes the other program: both survive that."""
    cores, *arguments = sys.argv[1:]
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # on which a training run saves and stops
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    if os.getppid() != parent:
        return 1  # it died before it could be watched
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    sys.exit(main())
