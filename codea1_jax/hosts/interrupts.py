"""Ctrl-C and SIGTERM, turned into an exception at moments when no state is half changed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import jax

from codea1_jax.errors import Interrupted
from codea1_jax.hosts.agreement import Agreement

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While active, a signal raises `Interrupted`: at once, or in a `shield` at its end or where it waits.

    Another signal during a shield, or once `Interrupted` is raised, changes nothing, for schedulers send several; but
    a Ctrl-C after one that was held back raises KeyboardInterrupt there and then: the user really means it.

    On several hosts all must stop at the same place, so there a signal only asks for it, and `Interrupted` is raised by
    a point of the `agreement`. Use as a context manager, in the main thread.
    """

    def __init__(self, agreement: Agreement | None = None) -> None:
        self._agreement = agreement
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
        """Holds signals back: what is done inside is done whole, unless it waits."""
        self._pass_point()
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False
        self._pass_point()

    def wait(self, arrays: Any) -> None:
        """Waits for arrays inside a shield, where what was begun may still be dropped. Raises Interrupted."""
        if self._agreement is None:
            jax.block_until_ready(arrays)
            self._pass_point()
        else:
            self._agreement.wait(arrays)

    def _pass_point(self) -> None:
        if self._agreement is not None:
            self._agreement.pass_point()
        elif self._pending is not None and not self._raised:
            self._raised = True
            raise Interrupted(self._pending)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self._agreement is not None:
            self._agreement.ask(name)
        elif not (self._shielded or self._raised):
            self._raised = True
            raise Interrupted(name)
        if self._pending is not None and number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        self._pending = self._pending or name
