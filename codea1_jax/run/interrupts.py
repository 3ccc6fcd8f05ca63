"""Ctrl-C and SIGTERM, turned into an exception at moments when no state is half changed."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """The process was asked to stop; the message names the signal."""


class Interrupts:
    """While active, a signal raises `Interrupted`: at once, or at the end of a `shield` if one is up.

    Another signal during a shield, or once `Interrupted` is raised, changes nothing, for schedulers send several; but
    a Ctrl-C after one that was held back raises KeyboardInterrupt there and then: the user really means it.

    On several hosts all must stop at the same place, so there a signal raises only where a shield begins or ends:
    `agree` then says whether any host has one pending. Use as a context manager, in the main thread.
    """

    def __init__(self, agree: Callable[[bool], bool] | None = None) -> None:
        self._agree = agree
        self._raised = False
        self._shielded = False
        self._pending: str | None = None
        self._previous = {}

    def __enter__(self) -> Interrupts:
        self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Holds signals back: what is done inside is done whole."""
        if self._agree is not None:
            self._heed(self._agree)
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False
        self._heed(self._agree or bool)

    def _heed(self, agree: Callable[[bool], bool]) -> None:
        if not self._raised and agree(self._pending is not None):
            self._raised = True
            raise Interrupted(self._pending or "a signal to another host")

    def _handle(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if not (self._shielded or self._raised) and self._agree is None:
            self._raised = True
            raise Interrupted(name)
        if self._pending is not None and number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        self._pending = self._pending or name
