"""The tasks that wait for a worker thread, shared by all threads of a pool."""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from sandbox.host.protocol import CheckProgress, Progress
from sandbox.jobs import SandboxError


@dataclass
class Task:
    """A job on its way through the pool."""

    progress: Progress | CheckProgress
    future: Future[Any]
    attempts: int = 0


class Backlog:
    """First come, first served. Once no thread works any more, tasks fail rather than wait."""

    def __init__(self, room: int, threads: int) -> None:
        """`room` for waiting tasks, which this many `threads` take."""
        self._room = room
        self._threads = self._working = threads
        self._tasks: deque[Task] = deque()
        self._closed = False
        self._outage = ""
        lock = threading.Lock()
        self._filled = threading.Condition(lock)  # a task came, or the backlog was closed: for threads
        self._drained = threading.Condition(lock)  # a task left, or no more can come: for callers of `put`

    @property
    def working(self) -> int:
        """How many threads take tasks."""
        return self._working

    def put(self, task: Task) -> None:
        """Add a task, waiting for room. Raises SandboxError if no worker will take it."""
        with self._drained:
            self._drained.wait_for(lambda: len(self._tasks) < self._room or self._closed or not self._working)
            if self._closed:
                raise SandboxError("the pool is closed")
            if not self._working:
                raise self._no_worker()
            self._tasks.append(task)
            self._filled.notify()

    def take(self, idle: bool) -> Task | None:
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

    def leave(self, tasks: Sequence[Task], outage: str) -> None:
        """A thread stops taking tasks, for the reason `outage`, and returns those that it had."""
        with self._filled:
            self._working -= 1
            self._outage = outage
            self._tasks.extendleft(reversed(tasks))
            self._filled.notify(len(tasks))
        if not self._working:
            self.fail(self._no_worker())

    def rejoin(self) -> None:
        """A thread that left takes tasks again."""
        with self._filled:
            self._working += 1

    def fail(self, error: SandboxError) -> None:
        """Fail all waiting tasks."""
        with self._drained:
            tasks, self._tasks = self._tasks, deque()
            self._drained.notify_all()
        for task in tasks:
            if task.future.running() or task.future.set_running_or_notify_cancel():
                task.future.set_exception(error)

    def close(self) -> None:
        """Take no further tasks; threads end when the waiting ones are done."""
        with self._filled:
            self._closed = True
            self._filled.notify_all()
            self._drained.notify_all()

    def wait_closed(self, seconds: float) -> bool:
        """Whether the backlog is closed, or will be within `seconds`."""
        with self._drained:
            return self._drained.wait_for(lambda: self._closed, seconds)

    def _no_worker(self) -> SandboxError:
        return SandboxError(f"no worker of the judge can be started: {self._outage}")
