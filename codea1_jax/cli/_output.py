"""What a command says: output whose reader may leave early, the log, and the operating system's refusals with a fix."""

import errno
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

LOGGED = ("codea1_jax", "sandbox")  # packages whose log a user reads


def say(text: str) -> None:
    """Prints on standard error, with what others have written, such as ids, as a terminal may show it."""
    from data_pipeline.problem import visible

    print(visible(text), file=sys.stderr)


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


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Looks standard error up at every record, so that lines go above a progress bar that has captured it."""

    def format(self, record: logging.LogRecord) -> str:
        from data_pipeline.problem import visible

        return visible(super().format(record))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Sends the log records of this project to standard error; calling it again changes the level."""
    handler = _StderrHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    for package in map(logging.getLogger, LOGGED):
        package.setLevel(level)
        package.propagate = False
        for old in [handler for handler in package.handlers if isinstance(handler, _StderrHandler)]:
            package.removeHandler(old)
        package.addHandler(handler)


_SPACE = "free some space, or choose another place"
_PERMISSION = "change its permissions, or choose another place"
_FIXES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "the limit is that of the file system, or of `ulimit -f`",
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "it is read-only: choose another place",
    errno.ENOTDIR: "a part of that path is a file: choose another place",
    errno.EADDRINUSE: "choose another --port",
    errno.EADDRNOTAVAIL: "choose another --host",
    errno.EMFILE: "raise the limit with `ulimit -n 65536`",
}


def in_words(error: Exception) -> str:
    """An error's own message, or of one that only has the operating system's: the path, the reason and the fix."""
    if not (isinstance(error, OSError) and error.strerror):
        return str(error)
    parts = [f"{error.filename}: " if error.filename else "", error.strerror]
    fix = _FIXES.get(error.errno or 0)
    return "".join([*parts, f"; {fix}" if fix else ""])
