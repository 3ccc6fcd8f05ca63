"""One process at a time writes to a run's directory."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import platform
import time
from pathlib import Path
from typing import IO, Any

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import naming

LOCK_FILE = "run.lock"

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)

logger = logging.getLogger(__name__)


class RunLock:
    """Holds a run's directory, which it makes, until `release`, or until the process ends in whatever way.

    Raises UserError, which names the holder, if another process holds it.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = (directory / LOCK_FILE).open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            refusal = _refusal(directory, self._file)
            self._file.close()
            raise refusal from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            logger.warning("%s cannot be locked there (%s): start no second process on it", directory, error.strerror)
        self._file.truncate(0)
        with naming(directory / LOCK_FILE):
            json.dump(identity(), self._file)
            self._file.flush()

    def release(self) -> None:
        """Lets other processes hold the directory. The file stays: removing it could remove another's lock."""
        self._file.close()


def identity() -> dict[str, Any]:
    """Who holds what this process locks."""
    return {"process": os.getpid(), "host": platform.node(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}


def described(lock: str) -> str:
    """Who holds a lock with this content."""
    try:
        return "process {process} on {host}, since {since}".format(**json.loads(lock))
    except (ValueError, KeyError, TypeError):  # it has only just begun
        return "another process"


def refuse_held(directory: Path) -> None:
    """Raises UserError if a process holds the directory now; writes nothing."""
    if not (directory / LOCK_FILE).exists():
        return
    with (directory / LOCK_FILE).open("r", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _refusal(directory, file) from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise


def _refusal(directory: Path, file: IO[str]) -> UserError:
    file.seek(0)
    return UserError(
        f"run.directory: {directory} is in use by {described(file.read())}; stop that process, or choose another "
        f"run.directory (if it no longer runs, delete {directory / LOCK_FILE})"
    )
