"""File descriptors: each worker of the judge needs several, and many cores need more than the usual soft limit."""

import os
import resource

from sandbox.jobs import SandboxUnavailable

_SPARE = 1_024  # for everything else in this process


def require(needed: int, purpose: str) -> None:
    """Makes room for `needed` more descriptors. Raises SandboxUnavailable where the hard limit forbids it."""
    room = make_room(needed)
    if room < needed:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        raise SandboxUnavailable(
            f"{purpose} need {needed} more file descriptors and the hard limit of {hard} leaves {room}: "
            "choose fewer workers, or raise it (`ulimit -n 65536` as root, LimitNOFILE= in systemd)"
        )


def make_room(needed: int) -> int:
    """Raises the soft limit as far as needed and allowed; returns how many more descriptors can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_open = len(os.listdir("/dev/fd"))
    target = is_open + needed + _SPARE
    if hard != resource.RLIM_INFINITY:
        target = min(target, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        soft = target
    return needed if soft == resource.RLIM_INFINITY else min(needed, soft - is_open)
