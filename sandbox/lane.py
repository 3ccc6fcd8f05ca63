"""A lane of the pool: one thread that keeps one zygote busy."""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import IO, Any

from sandbox.jobs import SandboxError
from sandbox.language import OutsideLanguage
from sandbox.protocol import CheckProgress, Progress
from sandbox.worker import Worker, WorkerDied, memory_file

PIPELINE = 4  # requests inside one zygote, so that it need not wait for the host
GRACE_SECONDS = 30.0  # how much longer than its own limits a zygote may take to report
ATTEMPTS = 2  # a job whose worker dies is tried once more


@dataclass
class Task:
    """A job on its way through the pool."""

    progress: Progress | CheckProgress
    future: Future[Any]
    attempts: int = 0


class Lane(threading.Thread):
    """Takes tasks from the shared queue until it meets None."""

    def __init__(self, tasks: "queue.Queue[Task | None]", lanes: int, start: Callable[[], Worker]) -> None:
        super().__init__(name="judge", daemon=True)
        self.restarts = 0
        self._tasks = tasks
        self._lanes = lanes
        self._start_worker = start
        self._worker = start()
        self._running: deque[tuple[Task, IO[bytes]]] = deque()
        self._last = False
        self._stopping = False

    def wait_ready(self) -> None:
        """Raises SandboxUnavailable."""
        self._worker.wait_ready()

    def abandon(self) -> None:
        """End the zygote of a lane that was never started."""
        self._worker.close()

    @property
    def worker_pid(self) -> int:
        return self._worker.pid

    def stop(self) -> None:
        """End the zygote at once; its tasks fail with SandboxError."""
        self._stopping = True
        self._last = True
        self._worker.kill()

    def run(self) -> None:
        try:
            while self._take():
                self._collect()
        except SandboxError as error:
            self._fail_all(error)
        except OSError as error:  # no descriptors or memory left in the host
            self._fail_all(SandboxError(f"the host cannot go on judging: {error}"))
        finally:
            self._fail_all(SandboxError("a fault of the judge's own ended this lane"))  # nothing is left where none did
            self._worker.close()

    def _take(self) -> bool:
        """Fill the pipeline; False when there is nothing left to do."""
        while not self._last and len(self._running) < PIPELINE:
            if self._running and self._tasks.qsize() < self._lanes:
                break  # few tasks: leave them to idle lanes
            task = self._next()
            if task is None:
                break
            if task.future.set_running_or_notify_cancel():
                self._send(task)
        return bool(self._running) or not self._last

    def _next(self) -> Task | None:
        """The next task; None if there is none now, or (then `_last` is set) ever."""
        try:
            task = self._tasks.get(block=not self._running)
        except queue.Empty:
            return None
        self._last = task is None
        return task

    def _send(self, task: Task) -> None:
        result = memory_file()
        self._running.append((task, result))
        try:
            text = task.progress.request()
        except OutsideLanguage as error:
            self._running.pop()
            result.close()
            task.future.set_exception(error)
            return
        with memory_file(text) as request:
            self._worker.send(task.progress.grant(), request, result)

    def _collect(self) -> None:
        """Wait for the oldest request's report."""
        task, result = self._running[0]
        progress = task.progress
        try:
            report = self._worker.receive(progress.limits.wall_factor * progress.limits.program_seconds + GRACE_SECONDS)
        except WorkerDied as error:
            self._replace_worker(error)
            return
        with result:
            progress.absorb(report, os.pread(result.fileno(), progress.limits.output_bytes, 0))
        self._running.popleft()
        if progress.done:
            task.future.set_result(progress.result())
        else:
            self._send(task)

    def _replace_worker(self, cause: WorkerDied) -> None:
        """Start another zygote and give it the tasks of the dead one, whose oldest task is the suspect."""
        self._worker.close()
        if self._stopping:
            raise SandboxError("the pool was closed")
        self._worker = self._start_worker()
        self._worker.wait_ready()
        self.restarts += 1
        tasks = [task for task, _ in self._running]
        self._close_results()
        suspect = tasks[0]
        suspect.attempts += 1
        if suspect.attempts == ATTEMPTS:
            suspect.future.set_exception(SandboxError(f"a job ended {ATTEMPTS} workers: {cause}"))
            tasks.remove(suspect)
        for task in tasks:
            self._send(task)

    def _fail_all(self, error: SandboxError) -> None:
        """This lane can do no more: every task that it holds or would take fails, rather than wait for
        ever.
        """
        for task, _ in self._running:
            task.future.set_exception(error)
        self._close_results()
        while not self._last:
            task = self._next()
            if task is not None and task.future.set_running_or_notify_cancel():
                task.future.set_exception(error)

    def _close_results(self) -> None:
        for _, result in self._running:
            result.close()
        self._running.clear()
