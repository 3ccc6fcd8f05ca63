"""One process at a time writes to a run's directory, and its checkpoints to a bucket.

A bucket knows no locks of the operating system. There the lock is an object that its holder writes again every few
seconds. Whoever finds one watches it: if it is written again, its holder lives; if it stays as it is, its holder has
been killed, and the lock is taken over. Every write and delete is of the generation that was read before, so of two
processes that try, one succeeds.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import platform
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import tensorstore

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import naming
from codea1_jax.runtime.storage import REMOTE

LOCK_FILE = "run.lock"
RENEW_SECONDS = 5.0
STALE_SECONDS = 20.0  # of a lock in a bucket that nobody has written again

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
    return _in_use("run.directory", str(directory), file.read())


def _in_use(key: str, directory: str, lock: str) -> UserError:
    return UserError(
        f"{key}: {directory} is in use by {described(lock)}; stop that process, or choose another "
        f"{key} (if it no longer runs, delete {directory}/{LOCK_FILE})"
    )


class LockLost(OSError):
    """Another process has taken over, or removed, the lock that this one held."""


class BucketLock:
    """Holds a directory in a bucket until `release`, or until the process has ended for `STALE_SECONDS`.

    Raises UserError, which names the holder, if another process holds it; finding out takes up to `STALE_SECONDS`.
    """

    def __init__(self, directory: str, sleep: Callable[[float], Any] = time.sleep) -> None:
        self._directory = directory.rstrip("/")
        bucket, _, folder = self._directory.removeprefix(REMOTE).partition("/")
        self._store = tensorstore.KvStore.open({"driver": "gcs", "bucket": bucket, "path": f"{folder}/"}).result()
        self._content = json.dumps(identity())
        self._lost: str | None = None
        found = self._read()
        if found.state == "value":
            found = self._watched(found, sleep)
        self._generation = self._write(self._content, found.stamp.generation)
        if self._generation is None:
            raise _in_use("checkpoint.directory", self._directory, self._read().value.decode())
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="bucket lock", daemon=True)
        self._renewing.start()

    def check(self) -> None:
        """Raises LockLost if another process has taken over: what both save would be mixed."""
        if self._lost is not None:
            raise LockLost(
                f"checkpoint.directory: {self._directory} was taken over by {self._lost}; only one process may go on"
            )

    def release(self) -> None:
        """Lets other processes hold the directory at once."""
        self._ended.set()
        self._renewing.join()
        if self._lost is None:
            try:
                self._write(None, self._generation)
            except ValueError as error:  # as below; the lock becomes stale
                logger.warning("%s: the run's lock could not be removed (%s)", self._directory, error)

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            try:
                generation = self._write(self._content, self._generation)
                if generation is None:
                    found = self._read()
            except ValueError as error:  # what tensorstore raises for a bucket that cannot be reached
                logger.warning("%s: the run's lock could not be renewed (%s)", self._directory, error)
                continue
            if generation is None:
                self._lost = described(found.value.decode()) if found.state == "value" else "nobody, its lock deleted"
                return
            self._generation = generation

    def _watched(self, found: Any, sleep: Callable[[float], Any]) -> Any:
        """The lock as it is once its holder has ended. Raises UserError if the holder lives."""
        holder = described(found.value.decode())
        logger.warning("%s is locked by %s: waiting to see whether it still runs", self._directory, holder)
        first, waited = found.stamp.generation, 0.0
        while waited < STALE_SECONDS:
            sleep(RENEW_SECONDS / 2)
            waited += RENEW_SECONDS / 2
            found = self._read()
            if found.state != "value":
                return found
            if found.stamp.generation != first:
                raise _in_use("checkpoint.directory", self._directory, found.value.decode())
        logger.warning("%s: taking over the lock of %s", self._directory, holder)
        return found

    def _read(self) -> Any:
        return self._store.read(LOCK_FILE).result()

    def _write(self, content: str | None, generation: bytes | None) -> bytes | None:
        """The lock's new generation; None if it is not of this generation any more."""
        return self._store.write(LOCK_FILE, content, if_equal=generation).result().generation or None
