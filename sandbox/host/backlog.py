"""The tasks that wait for a worker thread, shared by all threads of a pool."""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from sandbox.host.progress import Progress
from sandbox.jobs import SandboxError


class Backlog:
    """First come, first served. Once no thread works any more, tasks fail rather than wait."""

    def __init__(self, room: int, threads: int) -> None:
        self._room = room
        self._threads = self.working = threads  # all, and those that take tasks
        self._tasks: deque[Progress] = deque()
        self._closed = False
        self.stopped: SandboxError | None = None  # the end of all tasks, now and later
        self._outage: SandboxError | None = None  # the same, as long as no thread works
        lock = threading.Lock()
        self._filled = threading.Condition(lock)  # a task came, or the backlog was closed: for threads
        self._drained = threading.Condition(lock)  # a task left, or no more can come: for callers of `put`

    @property
    def waiting(self) -> int:
        return len(self._tasks)

    def put(self, task: Progress) -> None:
        """Add a task, waiting for room. Raises SandboxError if no worker will take it."""
        with self._drained:
            self._drained.wait_for(lambda: len(self._tasks) < self._room or self._closed or self._outage)
            if self._closed:
                raise SandboxError("the pool is closed")
            if self._outage:
                raise self._outage
            self._tasks.append(task)
            self._filled.notify()
        task.future.add_done_callback(self._forget_cancelled)

    def _forget_cancelled(self, future: Future[Any]) -> None:
        """Remove a waiting task that was cancelled, whose job would stay in memory and whose place would stay taken."""
        if future.cancelled():
            with self._drained:
                self._tasks = deque(task for task in self._tasks if task.future is not future)
                self._drained.notify()

    def take(self, idle: bool) -> Progress | None:
        """The next task that was not cancelled.

        An idle thread waits for one; None means that the backlog is closed and empty. A busy thread does not wait,
        and leaves the last few tasks to idle ones.
        """
        with self._filled:
            while True:
                if idle:
                    self._filled.wait_for(lambda: self._tasks or self._closed)
                if len(self._tasks) < (1 if idle else self._threads):
                    return None
                task = self._tasks.popleft()
                self._drained.notify()
                if task.future.running() or task.future.set_running_or_notify_cancel():
                    return task

    def give_back(self, tasks: Sequence[Progress]) -> None:
        with self._filled:
            self._tasks.extendleft(reversed(tasks))
            self._filled.notify(len(tasks))
        self._fail_where_none_works()

    def leave(self, outage: str) -> None:
        with self._filled:
            self.working -= 1
            if not self.working:
                self._outage = SandboxError(f"no worker of the judge can be started: {outage}")
        self._fail_where_none_works()

    def rejoin(self) -> None:
        with self._filled:
            self.working += 1
            self._outage = None

    def close(self, error: SandboxError | None = None) -> None:
        """Take no further tasks. Threads end when the waiting ones are done, or at once where these end by `error`."""
        with self._filled:
            self._closed = True
            self.stopped = self.stopped or error
            self._filled.notify_all()
            self._drained.notify_all()
        self._fail_where_none_works()

    def wait_closed(self, seconds: float) -> bool:
        with self._drained:
            return self._drained.wait_for(lambda: self._closed, seconds)

    def _fail_where_none_works(self) -> None:
        with self._drained:
            error = self.stopped or self._outage
            if error is None:
                return
            tasks, self._tasks = self._tasks, deque()
            self._drained.notify_all()
        for task in tasks:
            if task.future.running() or task.future.set_running_or_notify_cancel():
                task.future.set_exception(error)
