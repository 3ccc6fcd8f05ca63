"""A judge on a SandboxFusion service (POST /run_code), for those who already run one.

Weaker than our own: what separates programs from each other and from the host is whatever that service does. Expected
values still stay here, except that a dataset's check runs as the same user as the program, which may be able to read it
there. And slower: each program pays for a whole interpreter, and for another after every fatal call.
"""

import signal
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from sandbox.host.boot import boot_text
from sandbox.host.protocol import CheckProgress, Progress, Report
from sandbox.inside.watch import CUT_BY_WALL, NOT_CUT
from sandbox.jobs import CheckJob, CheckResult, Execution, Job, Limits, SandboxError
from sandbox.remote.services import ServiceJudge, Services

_START = """
import os
answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
os.dup2(nowhere, 1)
request = os.memfd_create("request")
os.write(request, {request!r})
inside.{module}.run(request, answers)
"""


class FusionJudge(ServiceJudge):
    """Spreads jobs over SandboxFusion services at `addresses` (``http://host:port``)."""

    def __init__(self, addresses: Sequence[str], limits: Limits | None = None, connections: int | None = None) -> None:
        super().__init__(Services(addresses, connections=connections))
        self.limits = limits or Limits()

    def submit(self, job: Job) -> Future[Execution]:
        """Run one program and its calls."""
        return self._services.submit(self._run, Progress(job, job.limits or self.limits), "evaluation")

    def submit_check(self, job: CheckJob) -> Future[CheckResult]:
        """Run a dataset's own check against one program."""
        return self._services.submit(self._run, CheckProgress(job, job.limits or self.limits), "checker")

    def _run(self, progress: Progress | CheckProgress, module: str) -> Any:
        seconds = progress.limits.program_seconds * progress.limits.wall_factor
        while not progress.done:
            code = boot_text(_START.format(request=progress.request(), module=module))
            answer = self._services.post("/run_code", {"code": code, "language": "python", "run_timeout": seconds})
            progress.absorb(*_read(answer))
        return progress.result()


def _read(answer: dict[str, Any]) -> tuple[Report, bytes]:
    """The report and the answers in a service's response. Raises SandboxError where it is an outage."""
    run = answer.get("run_result")
    if answer.get("status") == "SandboxError" or not isinstance(run, dict):
        raise SandboxError(f"the service could not run the program: {answer.get('message')}")
    late = run.get("status") == "TimeLimitExceeded"
    code = run.get("return_code") or 0
    signalled = -code if code < 0 else code - 128 if 128 < code < 128 + signal.NSIG else 0
    seconds = float(run.get("execution_time") or 0.0)
    data = str(run.get("stdout") or "").encode("ascii", "replace")
    return Report(signalled or code << 8, seconds, seconds, CUT_BY_WALL if late else NOT_CUT), data
