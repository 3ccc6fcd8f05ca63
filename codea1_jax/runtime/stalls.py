"""Notices a host that stalls: one that has drawn, judged, learned and saved nothing for a long time.

What makes progress says so (`heartbeat`), and a thread looks when that was last. A host that waits for another one
stalls as well, so every host reports, each with the stacks of its threads: the one that all wait for is the one
whose stack differs.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass

import jax

SAVE_SECONDS = 600.0  # that a run which is asked to stop has until it must have ended
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class _Beat:
    what: str
    at: float


_last = _Beat("the run began", time.monotonic())


def heartbeat(what: str) -> None:
    """Says what has just happened on this host, as a clause: "a block of tokens was drawn". Any thread may call it."""
    global _last  # noqa: PLW0603  (one process does one run; what works is far from what watches)
    _last = _Beat(what, time.monotonic())


class StallWatch:
    """While active, reports on standard error that this host has done nothing for `seconds`, with all stacks.

    stop: the run is then asked to stop, as SIGTERM does, which saves it where it can; if it has not ended
    `save_seconds` later, the process exits with 1, and what was saved before stays good. Use as a context manager.
    """

    def __init__(self, seconds: float | None, *, stop: bool = False, save_seconds: float = SAVE_SECONDS) -> None:
        """`seconds`: None if nobody is to look."""
        self._seconds, self._stop, self._save_seconds = seconds, stop, save_seconds
        self._over = threading.Event()

    def __enter__(self) -> StallWatch:
        heartbeat("the run began")
        if self._seconds is not None:
            threading.Thread(target=self._watch, args=(self._seconds,), name="stall watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self, seconds: float) -> None:
        reported: _Beat | None = None
        while not self._over.wait(min(_LOOK_SECONDS, seconds / 4)):
            last = _last
            if reported not in (None, last):
                _say(f"continues: {last.what}")
                reported = None
            silent = time.monotonic() - last.at
            if silent < seconds or reported is last:
                continue
            reported = last
            _say(f"stalled: nothing for {silent:.0f} s since {last.what}; what its threads do:")
            faulthandler.dump_traceback(sys.__stderr__ or sys.stderr)
            if self._stop:
                self._end()

    def _end(self) -> None:
        """Asks the run to stop, and ends the process if that does not help."""
        _say("is asked to stop (hosts.stop_on_stall)")
        os.kill(os.getpid(), signal.SIGTERM)
        if not self._over.wait(self._save_seconds):
            _say(f"did not stop in {self._save_seconds:.0f} s; what was saved is good: resume with --resume")
            os._exit(1)


def _say(what: str) -> None:
    host = f"host {jax.process_index()} of {jax.process_count()}"
    print(f"codea1: {time.strftime('%H:%M:%S')} {host} {what}", file=sys.__stderr__ or sys.stderr, flush=True)
