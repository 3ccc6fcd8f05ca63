"""A job of a program that reads standard input: one process for each input."""

import marshal
import os
import re
from dataclasses import replace

from sandbox.host.protocol import OUT_OF_TIME, Budget, Report, Sent, Steps, rlimits_of
from sandbox.inside import stream
from sandbox.inside.watch import GRANT, NOT_CUT, STREAM
from sandbox.jobs import Execution, Job, Limits, Outcome, Status
from sandbox.language import MARSHAL_VERSION
from sandbox.streams import encode_output, input_identity

_MAX_OUTPUT = 1 << 22  # bytes
_MAX_DETAIL = 200

_READ = re.compile(re.escape(stream.READ) + rb"(\d{1,9})\Z")
_STATUSES = {stream.OUT_OF_MEMORY: Status.OUT_OF_MEMORY, stream.DOES_NOT_PARSE: Status.RAISED}


def stream_steps(job: Job, limits: Limits) -> Steps[Execution]:
    """Runs the program on each input; without any, it is only compiled. A process that is killed is run once more."""
    budget = Budget(replace(limits, file_bytes=min(limits.file_bytes, _MAX_OUTPUT)))
    outcomes: list[Outcome] = []
    for text in job.calls or (None,):
        if budget.is_spent:
            outcomes.append(OUT_OF_TIME)
            continue
        report, data = yield _request(job, text, budget)
        budget.charge(report)
        if report.was_killed and budget.starts_another():
            report, data = yield _request(job, text, budget)
            budget.charge(report)
        match = _READ.search(data) if job.is_reference else None
        outcome = _outcome(report, data[: match.start()] if match else data)
        if outcome.value is None and (text is None or _exit_status(report) == stream.DOES_NOT_PARSE):
            return Execution(outcome, (outcome,) * len(job.calls), budget.cpu_seconds)
        if job.is_reference and text is not None and outcome.value is not None:
            outcome = replace(outcome, inputs=input_identity(_beginning(text, int(match[1]) if match else 0)))
        outcomes.append(outcome)
    return Execution(Outcome(Status.RETURNED, "None"), tuple(outcomes[: len(job.calls)]), budget.cpu_seconds)


def _request(job: Job, text: str | None, budget: Budget) -> Sent:
    limits = budget.limits
    seconds = min(limits.call_seconds, budget.cpu_left)
    rlimits = rlimits_of(limits, budget.cpu_left, limits.processes)
    stdin = None if text is None else text.encode("utf-8", "surrogatepass")
    message = (job.program, stdin, seconds, job.is_reference, rlimits, limits.recursion)
    # No line of output is known to be an answer: a program shows no progress before its end.
    factor = limits.wall_factor
    grant = GRANT.pack(seconds, seconds, budget.seconds_left, factor, factor * seconds, 0, STREAM)
    return marshal.dumps(message, MARSHAL_VERSION), grant


def _exit_status(report: Report) -> int | None:
    """None of a process that was ended by a signal."""
    return os.WEXITSTATUS(report.wait_status) if os.WIFEXITED(report.wait_status) else None


def _beginning(text: str, size: int) -> str:
    """The first `size` bytes of an input; all of it for 0, because not all ways to read show how much was read."""
    return text.encode("utf-8", "replace")[: size or None].decode("utf-8", "replace")


def _outcome(report: Report, data: bytes) -> Outcome:
    status = _exit_status(report)
    if status is None or report.cut != NOT_CUT:
        return report.death()
    text = data.decode("utf-8", "replace")
    if status == 0:
        return Outcome(Status.RETURNED, encode_output(text))
    detail = text[:_MAX_DETAIL].encode("ascii", "backslashreplace").decode()
    return Outcome(_STATUSES.get(status, Status.RAISED), detail=detail if detail.isprintable() else "")
