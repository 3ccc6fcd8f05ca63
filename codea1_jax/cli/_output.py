"""Standard output whose reader may leave early, as in `codea1 presets | head -1`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ReaderGone(Exception):
    """The reader of standard output has gone. Not an OSError, which would be reported as a failure."""


class Output:
    """A stream that raises ReaderGone for a broken pipe, so that no other file's or socket's is taken for its own.

    Any other OSError names it. What is written after that goes nowhere.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._noticing():
            return self._stream.write(text)

    def flush(self) -> None:
        with self._noticing():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # else the interpreter fails at its end to write what is left
            os.close(nowhere)
            if isinstance(error, BrokenPipeError):
                raise ReaderGone from None
            raise OSError(error.errno, error.strerror, "standard output") from error
