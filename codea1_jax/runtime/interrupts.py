"""Ctrl-C, SIGTERM and a lost terminal, turned into an exception at moments when no state is half changed."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import jax

from codea1_jax.common.errors import Interrupted
from codea1_jax.runtime.gather import any_host

_HANGS_UP = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # which nohup asks for: the run outlives its terminal
SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if _HANGS_UP else ()))
REPEAT_AFTER = 0.01  # seconds


class Interrupts:
    """While active, a signal raises `Interrupted`: at once, or in a `shield` at its end or where it waits.

    Another signal during a shield, or once `Interrupted` is raised, changes nothing, for schedulers send several; but
    a Ctrl-C after one that was held back raises KeyboardInterrupt there and then: the user really means it.

    Python drops what is raised in a callback of the garbage collector or a finalizer, such as JAX's: a signal that came
    there is sent again.

    On several hosts all must stop at the same place: there `check`, which both ends of a shield call, raises on all of
    them once one was sent a signal. Use as a context manager, in the main thread.
    """

    def __init__(self) -> None:
        self._alone = jax.process_count() == 1
        self._raised = False
        self._shielded = False
        self._pending: str | None = None
        self._previous = {}
        self._report: Callable[[Any], object] = sys.__unraisablehook__

    def __enter__(self) -> "Interrupts":
        self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}
        self._report, sys.unraisablehook = sys.unraisablehook, self._repeat
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        sys.unraisablehook = self._report
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if kind is None:
            self.check()

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Holds signals back: what is done inside is done whole, unless it waits."""
        self.check()
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False
        self.check()

    def wait(self, arrays: Any) -> None:
        """Waits for arrays inside a shield, where what was begun may still be dropped. Raises Interrupted."""
        jax.block_until_ready(arrays)
        if self._alone:
            self.check()

    def check(self) -> None:
        """Raises Interrupted, once, for a signal that was held back, here or on another host. All hosts must ask."""
        if not self._raised and any_host(self._pending is not None):
            self._raised = True
            raise Interrupted(self._pending or "a signal to another host")

    def _handle(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self._alone and not (self._shielded or self._raised):
            self._raised = True
            raise Interrupted(name)
        if self._pending is not None and number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        if self._pending is None:
            with suppress(OSError):  # whoever reads it may have got the same signal
                os.write(2, b"\nsaving and stopping as soon as possible; Ctrl-C again stops at once\n")
        self._pending = self._pending or name

    def _repeat(self, dropped: Any) -> None:
        """Sends a signal again whose exception was dropped; reports any other exception as before."""
        if not isinstance(dropped.exc_value, Interrupted):
            self._report(dropped)
            return
        self._raised = False
        number = signal.Signals[str(dropped.exc_value)]
        # Not before the callback has ended, and to the main thread: what it waits for would not end for another's.
        again = threading.Timer(REPEAT_AFTER, signal.pthread_kill, (threading.main_thread().ident, number))
        again.daemon = True
        again.start()
