"""One thread of the pool, which keeps one zygote busy."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import IO

from sandbox.host.backlog import Backlog
from sandbox.host.progress import Progress
from sandbox.host.protocol import PIPELINE, Report
from sandbox.host.worker import Worker, WorkerDied, memory_file
from sandbox.inside.watch import NOT_CUT
from sandbox.jobs import SandboxError
from sandbox.language import OutsideLanguage

GRACE_SECONDS = 30.0  # how much longer than its own limits a zygote may take to report
ATTEMPTS = 2  # a job whose worker dies is tried once more
_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds before another attempt to start a worker; doubled for each further one


class WorkerThread(threading.Thread):
    """Takes tasks from the backlog until it is closed; while it has no worker, it takes none and tries to start one.

    What goes wrong with a task fails that task alone. Only what goes wrong with the worker concerns the thread.
    """

    def __init__(self, backlog: Backlog, worker: Worker, start: Callable[[], Worker]) -> None:
        """`start` starts another worker where the first one, which is ready, or a later one has died."""
        super().__init__(name="judge", daemon=True)
        self.restarts = 0
        self.worker: Worker | None = worker
        self._backlog = backlog
        self._start_worker = start
        self._running: deque[tuple[Progress, IO[bytes]]] = deque()

    def run(self) -> None:
        try:
            while (worker := self.worker or self._another_worker()) and self._fill(worker):
                self._collect(worker)
        finally:
            self._backlog.give_back(self._take_back())
            if self.worker is not None:
                self._backlog.leave("the last worker thread has ended")
                self.worker.close()

    def _fill(self, worker: Worker) -> bool:
        while len(self._running) < PIPELINE:
            task = self._backlog.take(idle=not self._running)
            if task is None:
                break
            self._send(worker, task)
        return bool(self._running)

    def _send(self, worker: Worker, task: Progress) -> None:
        try:
            text, grant = task.request()
            with memory_file(text) as request, ExitStack() as opened:
                result = opened.enter_context(memory_file())
                worker.send(grant, request, result, task.limits)
                opened.pop_all()
        except Exception as error:  # noqa: BLE001  (whatever it is, whoever waits for this task gets it)
            _fail(task, error)
        else:
            self._running.append((task, result))

    def _collect(self, worker: Worker) -> None:
        task, result = self._running[0]
        limits = task.limits
        try:
            report = worker.receive(limits.wall_factor * limits.program_seconds + GRACE_SECONDS)
        except WorkerDied as error:
            self._bury(worker, error)
            return
        self._running.popleft()
        with result:
            needs_another = _absorb(task, report, result)
        if needs_another:
            self._send(worker, task)

    def _bury(self, dead: Worker, cause: WorkerDied) -> None:
        """Give back the tasks of a dead worker, whose oldest task is the suspect.

        If its program took all memory that the worker may use, and that ended the zygote, the program has crashed.
        """
        ran_out = dead.ran_out_of_memory()
        dead.close()
        self.worker = None
        suspect, result = self._running[0]
        suspect.attempts += 1
        needs_another = suspect.attempts < ATTEMPTS
        if not needs_another and ran_out:
            seconds = suspect.limits.program_seconds  # all that it has, or each of its calls could do it again
            needs_another = _absorb(suspect, Report(signal.SIGKILL, seconds, seconds, NOT_CUT), result)
        elif not needs_another:
            suspect.future.set_exception(SandboxError(f"a job ended {ATTEMPTS} workers: {cause}"))
        self._backlog.give_back(self._take_back()[0 if needs_another else 1 :])

    def _another_worker(self) -> Worker | None:
        """Start a zygote as soon as the host allows it; None where it has not when the backlog is closed."""
        pause = 0.0
        while not self._backlog.stopped and not (pause and self._backlog.wait_closed(pause)):
            try:
                worker = self._start_worker()
                worker.wait_ready()
            except (SandboxError, OSError) as error:
                if not pause:
                    self._backlog.leave(str(error))
                pause = min(2 * pause or _PAUSE, _LONGEST_PAUSE)
            else:
                if pause:
                    self._backlog.rejoin()
                self.restarts += 1
                self.worker = worker
                return worker
        return None

    def _take_back(self) -> list[Progress]:
        tasks = [task for task, _ in self._running]
        for _, result in self._running:
            result.close()
        self._running.clear()
        return tasks


def _absorb(task: Progress, report: Report, result: IO[bytes]) -> bool:
    """Have a task take in what a process of it did, whoever waits for it get its end; whether another must follow."""
    try:
        answer = task.absorb(report, os.pread(result.fileno(), task.limits.file_bytes, 0))
    except Exception as error:  # noqa: BLE001  (see _send)
        _fail(task, error)
        return False
    if answer is not None:
        task.future.set_result(answer)
    return answer is None


def _fail(task: Progress, error: Exception) -> None:
    if isinstance(error, OSError):
        error = SandboxError(f"the host cannot continue judging: {error}")
    elif not isinstance(error, OutsideLanguage | SandboxError):
        cause = f"{type(error).__name__}: {error}"
        error = SandboxError(f"an internal error of the judge ended this job: {cause}")
    task.future.set_exception(error)
