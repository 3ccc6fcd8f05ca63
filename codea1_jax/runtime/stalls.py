"""Reports a host that stalls: one that has drawn, judged, learned and saved nothing for a long time.

What makes progress says so (`heartbeat`); when that was too long ago, Python prints the stacks of all threads. A host
that waits for another one stalls as well, so every host reports: the one that all wait for is the one whose stack
differs.
"""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_seconds: float | None = None  # one process does one run; what works is far from what watches


def heartbeat() -> None:
    """Says that this host has just made progress. Any thread may call it."""
    if _seconds is not None:
        faulthandler.dump_traceback_later(_seconds, file=sys.__stderr__ or sys.stderr)


@contextmanager
def reporting_stalls(seconds: float | None) -> Iterator[None]:
    """Inside it, standard error gets the stacks of all threads once nothing has happened for `seconds`; None: never."""
    global _seconds  # noqa: PLW0603
    _seconds = seconds
    heartbeat()
    try:
        yield
    finally:
        _seconds = None
        faulthandler.cancel_dump_traceback_later()
