"""A job on its way through the pool: processes in the jail, one after another."""

from concurrent.futures import Future
from typing import Any

from sandbox.host.protocol import Evaluation, Report, Sent, Steps, check_steps
from sandbox.host.streams import script_steps, stream_steps
from sandbox.jobs import CheckJob, Job, Limits, ScriptJob, Task

AnyJob = Job | CheckJob | ScriptJob


def _steps(job: AnyJob, limits: Limits) -> Steps[Any]:
    if isinstance(job, CheckJob):
        return check_steps(job, limits)
    if isinstance(job, ScriptJob):
        return script_steps(job, limits)
    return stream_steps(job, limits) if job.task is Task.STREAM else Evaluation(job, limits).steps()


class Progress:
    def __init__(self, job: AnyJob, limits: Limits) -> None:
        self.job = job
        self.limits = limits
        self.future: Future[Any] = Future()
        self.attempts = 0  # that ended a worker
        self._steps = _steps(job, limits)
        self._next: Sent | None = None

    def request(self) -> Sent:
        """What the next process needs; the same until it has ended. Raises OutsideLanguage."""
        if self._next is None:
            self._next = next(self._steps)
        return self._next

    def absorb(self, report: Report, data: bytes) -> Any:
        """What a process did: the job's result, or None where another must follow. Raises SandboxError."""
        try:
            self._next = self._steps.send((report, data))
        except StopIteration as end:
            return end.value
        return None
