"""Where a run on several hosts stops: at a point of the program that all of them agree on.

Every host runs the same program, so it passes the same *points*: one after each decode block, one after each micro-
batch, one before outcomes are shared. A host that was asked to stop announces it in a key-value store that all can
read (JAX's coordination service). Then each host's own thread writes there how many points its program has passed, and
holds the program at its next one until all have written. The point after the furthest is where all stop. Nothing of
this uses the accelerators, so it works while they are busy.

A host decides for itself what it does while it waits for its devices or its judge: nobody else waits for it before the
next point. So if that is the agreed one, the host stops without waiting any longer.

JAX's own preemption sync point answers only at a point, and only to SIGTERM: a host that waits could not learn from it
that the next point is the last.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax

from codea1_jax.common.errors import Interrupted
from sandbox import in_thread

T = TypeVar("T")

_LOOK_SECONDS = 0.25  # at the store
_DEVICE_LOOK_SECONDS = 0.005  # at arrays that are being computed
_REQUESTED, _PASSED, _MET = "codea1/stop/requested", "codea1/stop/passed", "codea1/met"


@runtime_checkable
class KeyValueStore(Protocol):
    """Short texts by key, which all hosts read and write."""

    def write(self, key: str, text: str) -> None:
        """Writes a key that is new, or returns what it holds already."""
        ...

    def read(self, folder: str) -> Mapping[str, str]:
        """All texts whose key begins with `folder` and a slash."""
        ...

    def erase(self, folder: str) -> None:
        """Removes those texts."""
        ...


class Agreement:
    """One host's part in agreeing when to stop. Use as a context manager; its points are passed by one thread."""

    def __init__(self, store: KeyValueStore, index: int, count: int) -> None:
        self._store, self._index, self._count = store, index, count
        self._changed = threading.Condition()
        self._passed = 0
        self._met = 0  # the point before which all met last
        self._held = False
        self._last: int | None = None  # the point at which all stop
        self._stopped = False
        self._signal: str | None = None
        self._over = threading.Event()
        self._failed: BaseException | None = None

    def __enter__(self) -> Agreement:
        threading.Thread(target=self._look, name="agreement", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def ask(self, signal: str) -> None:
        """Asks all hosts to stop. May be called by a signal handler: it takes no lock."""
        self._signal = self._signal or signal

    def pass_point(self) -> None:
        """Passes a point, or raises Interrupted if it is the last one. After that it does nothing."""
        with self._changed:
            self._raise_failure()
            while self._held and self._last is None:
                self._changed.wait(_LOOK_SECONDS)
                self._raise_failure()
            self._stop_if_next_is_last()
            self._passed += 1

    def check_stop(self) -> None:
        """Raises Interrupted if the next point is the last one.

        For a host that will reach that point without any other: all that it computes together with others has begun.
        """
        with self._changed:
            self._raise_failure()
            self._stop_if_next_is_last()

    def wait(self, arrays: Any) -> None:
        """Waits for arrays that the devices compute, then passes a point. Raises Interrupted, perhaps before them."""
        while not _are_ready(arrays):
            self.check_stop()
            time.sleep(_DEVICE_LOOK_SECONDS)
        self.pass_point()

    def work(self, function: Callable[[], T]) -> T:
        """What `function` returns, called in a thread, once all hosts have done theirs. Raises Interrupted.

        The function may use nothing that hosts compute together. What all do next they begin together.
        """
        future = in_thread(function, name="work of this host")
        while not future.done():
            self.check_stop()
            time.sleep(_DEVICE_LOOK_SECONDS)
        value = future.result()
        self._meet()
        return value

    def _meet(self) -> None:
        meeting = self._passed + 1
        self._store.write(f"{_MET}/{meeting}/{self._index}", "")
        while len(self._store.read(f"{_MET}/{meeting}")) < self._count:
            self.check_stop()
            time.sleep(_LOOK_SECONDS / 5)
        self.pass_point()
        if self._index == 0:  # all have left the meeting before this one
            self._store.erase(f"{_MET}/{self._met}")
        self._met = meeting

    def _stop_if_next_is_last(self) -> None:
        if not self._stopped and self._last is not None and self._passed + 1 >= self._last:
            self._stopped = True
            raise Interrupted(self._signal or "a signal to another host")

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _look(self) -> None:
        """Run by a separate thread: nothing that the program does meanwhile, however long it takes, delays it."""
        try:
            self._agree()
        except Exception as error:  # noqa: BLE001  (the program raises it at its next point)
            self._failed = error

    def _agree(self) -> None:
        while not self._store.read(_REQUESTED):
            if self._signal is not None:
                self._store.write(f"{_REQUESTED}/{self._index}", self._signal)
            if self._over.wait(_LOOK_SECONDS):
                return
        with self._changed:
            self._held = True
            passed = self._passed
        self._store.write(f"{_PASSED}/{self._index}", str(passed))
        while len(by_host := self._store.read(_PASSED)) < self._count:
            if self._over.wait(_LOOK_SECONDS):
                return
        with self._changed:
            self._last = max(map(int, by_host.values())) + 1
            self._changed.notify_all()


def _are_ready(arrays: Any) -> bool:
    """Whether a tree's arrays are computed; those in the host's memory are."""
    on_devices = (array for array in jax.tree.leaves(arrays) if isinstance(array, jax.Array))
    return all(array.is_ready() for array in on_devices)  # pyright: ignore[reportAttributeAccessIssue]


_of_this_process: Agreement | None = None


@contextmanager
def agreeing(store: KeyValueStore, index: int, count: int) -> Iterator[None]:
    """Inside it, `agreement` is that of this host, `index` of `count`."""
    global _of_this_process  # noqa: PLW0603  (as JAX's own membership of a cluster is the process's)
    with Agreement(store, index, count) as _of_this_process:
        try:
            yield
        finally:
            _of_this_process = None


def agreement() -> Agreement | None:
    """This host's part in the agreement, or None if it is the only one."""
    return _of_this_process


def wait(arrays: Any) -> None:
    """Waits for arrays that the devices compute; on several hosts a point where all may stop. Raises Interrupted."""
    if _of_this_process is None:
        jax.block_until_ready(arrays)
    else:
        _of_this_process.wait(arrays)
