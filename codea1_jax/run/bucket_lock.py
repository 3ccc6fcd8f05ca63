"""One process at a time writes a run's checkpoints to a bucket, which knows no locks of the operating system.

The lock is an object that its holder writes again every few seconds. Whoever finds one watches it: if it is written
again, its holder lives; if it stays as it is, its holder has been killed, and the lock is taken over. Every write and
delete is of the generation that was read before, so of two processes that try, one succeeds.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorstore

from codea1_jax.checkpoint.storage import REMOTE
from codea1_jax.common.errors import UserError
from codea1_jax.run.lock import LOCK_FILE, described, identity

RENEW_SECONDS = 5.0
STALE_SECONDS = 20.0  # of a lock that nobody has written again

logger = logging.getLogger(__name__)


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
            raise self._refusal(self._read())
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
                raise self._refusal(found)
        logger.warning("%s: taking over the lock of %s", self._directory, holder)
        return found

    def _refusal(self, found: Any) -> UserError:
        holder = described(found.value.decode())
        return UserError(
            f"checkpoint.directory: {self._directory} is in use by {holder}; stop that process, or choose another "
            f"checkpoint.directory (if it no longer runs, delete {self._directory}/{LOCK_FILE})"
        )

    def _read(self) -> Any:
        return self._store.read(LOCK_FILE).result()

    def _write(self, content: str | None, generation: bytes | None) -> bytes | None:
        """The lock's new generation; None if it is not of this generation any more."""
        return self._store.write(LOCK_FILE, content, if_equal=generation).result().generation or None
