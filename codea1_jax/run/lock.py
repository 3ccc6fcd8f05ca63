import errno
import fcntl
import json
import logging
import os
import platform
import time
from pathlib import Path
from typing import IO

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
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            json.dump({"process": os.getpid(), "host": platform.node(), "since": since}, self._file)
            self._file.flush()

    def release(self) -> None:
        """Lets other processes hold the directory. The file stays: removing it could remove another's lock."""
        self._file.close()


def _refusal(directory: Path, file: IO[str]) -> UserError:
    file.seek(0)
    try:
        holder = "process {process} on {host}, since {since}".format(**json.load(file))
    except (ValueError, KeyError, TypeError):  # it has only just begun
        holder = "another process"
    return UserError(
        f"run.directory: {directory} is in use by {holder}; stop that process, or choose another run.directory (if it "
        f"no longer runs, delete {directory}/{LOCK_FILE})"
    )
