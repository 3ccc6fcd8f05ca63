"""A judge on a SandboxFusion service (POST /run_code), for those who already run one.

Weaker than our own: what separates programs from each other and from the host is whatever that service does. Expected
values still stay here, except that a dataset's check runs as the same user as the program, which may be able to read it
there. And slower: each program pays for a whole interpreter, and for another after every fatal call or, if it reads
standard input, for every test. How much of an input a reference read is not known there.
"""

import signal
from typing import Any

from sandbox.host.boot import boot_text
from sandbox.host.progress import Progress
from sandbox.host.protocol import Report
from sandbox.inside.watch import CUT_BY_WALL, NOT_CUT
from sandbox.jobs import CheckJob, Job, Limits, SandboxError, Task
from sandbox.remote.client import ServiceJudge

_START = """
import os
answers, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
os.dup2(nowhere, 1)
request = os.memfd_create("request")
os.write(request, {request!r})
inside.{module}.run(request, answers)
"""


class FusionJudge(ServiceJudge):
    """Judges by services of SandboxFusion."""

    def ask(self, job: Job | CheckJob, limits: Limits) -> Any:
        """What became of a job, in as many runs as it takes. Raises SandboxError and OutsideLanguage."""
        progress = Progress(job, limits)
        module = "checker" if isinstance(job, CheckJob) else "stream" if job.task is Task.STREAM else "evaluation"
        seconds = limits.program_seconds * limits.wall_factor
        while True:
            code = boot_text(_START.format(request=progress.request()[0], module=module))
            fields = {"code": code, "language": "python", "run_timeout": seconds}
            answer = progress.absorb(*self.post("/run_code", fields, _read))
            if answer is not None:
                return answer


def _read(answer: dict[str, Any]) -> tuple[Report, bytes]:
    """The report and the answers in a service's response. Raises SandboxError where it is an outage."""
    run = answer.get("run_result")
    if answer.get("status") == "SandboxError" or not isinstance(run, dict):
        raise SandboxError(f"the service could not run the program: {answer.get('message')}")
    late = run.get("status") == "TimeLimitExceeded"
    code = run.get("return_code") or 0
    signalled = -code if code < 0 else code - 128 if 128 < code < 128 + signal.NSIG else 0
    seconds = float(run.get("execution_time") or 0.0)
    data = str(run.get("stdout") or "").encode("utf-8", "replace")
    return Report(signalled or code << 8, seconds, seconds, CUT_BY_WALL if late else NOT_CUT), data
