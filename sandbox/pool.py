"""The pool: jobs in, futures out, one jailed zygote per core."""

import os
import queue
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from sandbox.jail import BackendName, plan_launch
from sandbox.jobs import CheckJob, CheckResult, Execution, Job, Limits, SandboxError
from sandbox.judge import Judge
from sandbox.lane import Lane, Task
from sandbox.protocol import CheckProgress, Progress
from sandbox.worker import Worker


class SandboxPool(Judge):
    """Runs programs in jails, several at once.

    `submit` and `submit_judge` return futures (for `concurrent.futures.as_completed`, say) and block
    while `pending` jobs are waiting; `execute` and `judge` return results in the order of the jobs. A
    worker that dies is replaced and its job tried once more; after that its future raises SandboxError. A
    call outside the suite language makes it raise OutsideLanguage.

    `backend` is "auto" or "nsjail" (the jail, or SandboxUnavailable), or "process": resource limits and
    separate processes but no jail, so programs can read this user's files and use the network. `preload`
    names packages of this environment that programs may import, and that are imported once per worker.

    What it does not protect against: see `sandbox`.
    """

    def __init__(
        self,
        workers: int | None = None,
        backend: BackendName = "auto",
        limits: Limits | None = None,
        preload: Sequence[str] = (),
        pending: int = 4_096,
    ) -> None:
        """Start `workers` zygotes (None: one per core). Raises SandboxUnavailable."""
        self.limits = limits or Limits()
        launch = plan_launch(backend, preload)
        self.backend = launch.backend
        count = workers or os.cpu_count() or 1
        self._tasks: queue.Queue[Task | None] = queue.Queue(pending)
        self._closed = False
        self._lanes = [Lane(self._tasks, count, lambda: Worker(launch, preload)) for _ in range(count)]
        self._start()

    def submit(self, job: Job) -> Future[Execution]:
        """Run one program and its calls."""
        return self._submit(Progress(job, job.limits or self.limits))

    def submit_check(self, job: CheckJob) -> Future[CheckResult]:
        """Run a dataset's own check against one program."""
        return self._submit(CheckProgress(job, job.limits or self.limits))

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The processes at the head of each jail, for monitoring."""
        return tuple(lane.worker_pid for lane in self._lanes)

    @property
    def restarts(self) -> int:
        """Workers replaced so far."""
        return sum(lane.restarts for lane in self._lanes)

    def close(self) -> None:
        """Finish what was submitted, then end the workers."""
        if self._closed:
            return
        self._closed = True
        for _ in self._lanes:
            self._tasks.put(None)
        for lane in self._lanes:
            lane.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # nobody will read the results
            for lane in self._lanes:
                lane.stop()
        self.close()

    def _start(self) -> None:
        try:
            for lane in self._lanes:
                lane.wait_ready()
        except SandboxError:
            for lane in self._lanes:
                lane.abandon()
            raise
        for lane in self._lanes:
            lane.start()

    def _submit(self, progress: Progress | CheckProgress) -> Future[Any]:
        if self._closed:
            raise SandboxError("the pool is closed")
        future: Future[Any] = Future()
        self._tasks.put(Task(progress, future))
        return future
