"""The pool: jobs in, futures out, one jailed zygote per core."""

import os
import resource
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from sandbox.host.backlog import Backlog
from sandbox.host.cgroup import EACH_PROCESS, grant
from sandbox.host.descriptors import require
from sandbox.host.jail import BackendName, plan_launch
from sandbox.host.progress import AnyJob, Progress
from sandbox.host.worker import Worker
from sandbox.host.worker_thread import WorkerThread
from sandbox.jobs import Limits, R, Request, SandboxError, SandboxUnavailable
from sandbox.judge import Judge

DESCRIPTORS = 10  # at most, of one worker and its thread: while the worker is being replaced


def default_workers() -> int:
    """Seven for every eight cores that this process may use; the rest are left to whoever submits the jobs."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores - cores // 8


class SandboxPool(Judge):
    """Runs programs in jails, several at once.

    Submitting blocks while `pending` jobs are waiting. A worker that dies is replaced and its job tried once more;
    after that its future raises SandboxError. A call outside the suite language makes it raise OutsideLanguage.
    While no worker can be started, jobs fail.

    `backend` is "auto" or "nsjail" (the jail, or SandboxUnavailable), or "process": resource limits and
    separate processes but no jail, so programs can read this user's files and use the network. `preload`
    names packages of this environment that programs may import, and that are imported once per worker. `packages` is
    the folder of another environment (of this Python's version) whose packages take their place.
    """

    def __init__(
        self,
        workers: int | None = None,
        backend: BackendName = "auto",
        limits: Limits | None = None,
        preload: Sequence[str] = (),
        pending: int = 4_096,
        packages: Path | None = None,
    ) -> None:
        """Start `workers` zygotes (None: `default_workers`). Raises SandboxUnavailable and ValueError."""
        if workers is not None and workers < 1:
            raise ValueError(f"the judge needs at least one worker, not {workers}")
        self.limits = limits or Limits()
        _refuse_beyond_own(self.limits)
        self.pending = pending
        launch = plan_launch(backend, preload, packages)
        self.backend = launch.backend
        count = default_workers() if workers is None else workers
        require(count * DESCRIPTORS, f"{count} workers of the judge")
        groups, self.memory_limit = grant(self.limits) if self.backend == "nsjail" else (None, EACH_PROCESS)
        start = partial(Worker, launch, preload, groups)
        started: list[Worker] = []
        try:
            for _ in range(count):
                started.append(start())
            for worker in started:
                worker.wait_ready()
        except (SandboxError, OSError) as error:
            for worker in started:
                worker.close()
            if isinstance(error, OSError):
                raise SandboxUnavailable(f"{count} workers of the judge cannot be started here: {error}") from error
            raise
        self._backlog = Backlog(pending, count)
        self._threads = [WorkerThread(self._backlog, worker, start) for worker in started]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Request[R]) -> Future[R]:
        assert isinstance(job, AnyJob)
        progress = Progress(job, job.limits or self.limits)
        _refuse_beyond_own(progress.limits)
        self._backlog.put(progress)
        return progress.future

    @property
    def worker_pids(self) -> tuple[int, ...]:
        return tuple(worker.pid for worker in self._living)

    @property
    def _living(self) -> list[Worker]:
        return [worker for thread in self._threads if (worker := thread.worker) is not None]

    @property
    def workers(self) -> int:
        return len(self._threads)

    @property
    def working(self) -> int:
        """How many of them take jobs: one that died, and cannot be replaced, does not."""
        return self._backlog.working

    @property
    def waiting(self) -> int:
        return self._backlog.waiting

    @property
    def restarts(self) -> int:
        return sum(thread.restarts for thread in self._threads)

    def close(self) -> None:
        self._backlog.close()
        for thread in self._threads:
            thread.join()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:  # nobody will read the results
            self._backlog.close(SandboxError("the pool was closed"))
            for worker in self._living:
                worker.kill()
        self.close()


def _refuse_beyond_own(limits: Limits) -> None:
    """Raises SandboxUnavailable if programs may use more than this process: each would end before it began."""
    for kind, allowed, option in (
        (resource.RLIMIT_FSIZE, limits.file_bytes, "-f"),
        (resource.RLIMIT_AS, limits.memory_mb << 20, "-v"),
    ):
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY and hard < allowed:
            raise SandboxUnavailable(
                f"judged programs may use {allowed} bytes and this process {hard}: raise `ulimit {option}`"
            )
