"""Jobs of programs that read standard input: one process for each input."""

import marshal
import os
import re
from dataclasses import replace

from sandbox.host.protocol import OUT_OF_TIME, Budget, Report, Sent, Steps, rlimits_of
from sandbox.inside import stream
from sandbox.inside.watch import GRANT, NOT_CUT, STREAM
from sandbox.jobs import Execution, Job, Limits, Outcome, ScriptJob, ScriptResult, Status
from sandbox.language import MARSHAL_VERSION
from sandbox.streams import encode_output, input_identity

_MAX_OUTPUT = 1 << 22  # bytes
_MAX_VALUES = 1 << 26  # characters of all of a job's values, which are kept until its end
_MAX_DETAIL = 200

_READ = re.compile(re.escape(stream.READ) + rb"(\d{1,9})\Z")
_ERRORS = re.compile(re.escape(stream.ERRORS) + rb"(\d{1,6})\Z")
_OUT_OF_ROOM = Outcome(Status.OUT_OF_MEMORY, detail="the program's outputs as a whole")
_STATUSES = {stream.OUT_OF_MEMORY: Status.OUT_OF_MEMORY, stream.DOES_NOT_PARSE: Status.RAISED}


def stream_steps(job: Job, limits: Limits) -> Steps[Execution]:
    """Runs the program on each input; without any, it is only compiled. A process that is killed is run once more."""
    budget = Budget(replace(limits, file_bytes=min(limits.file_bytes, _MAX_OUTPUT)))
    outcomes: list[Outcome] = []
    room = _MAX_VALUES
    for text in job.calls or (None,):
        if budget.is_spent or room < 0:
            outcomes.append(OUT_OF_TIME if budget.is_spent else _OUT_OF_ROOM)
            continue
        report, data = yield _request(job, text, budget)
        budget.charge(report)
        if report.was_killed and budget.starts_another():
            report, data = yield _request(job, text, budget)
            budget.charge(report)
        match = _READ.search(data) if job.is_reference else None
        outcome = _outcome(report, data[: match.start()] if match else data, job.as_printed)
        if outcome.value is None and (text is None or _exit_status(report) == stream.DOES_NOT_PARSE):
            return Execution(outcome, (outcome,) * len(job.calls), budget.cpu_seconds)
        if job.is_reference and text is not None and outcome.value is not None:
            # With the output: for a reference to which lines matter, inputs that differ in these alone are two.
            identity = input_identity(_beginning(text, int(match[1]) if match else 0))
            outcome = replace(outcome, inputs=f"{identity} {outcome.value}")
        outcomes.append(outcome)
        room -= len(outcome.value or "")
    return Execution(Outcome(Status.RETURNED, "None"), tuple(outcomes[: len(job.calls)]), budget.cpu_seconds)


def script_steps(job: ScriptJob, limits: Limits) -> Steps[ScriptResult]:
    """Runs a script; once more where it is killed."""
    limits = replace(limits, program_seconds=limits.call_seconds)
    budget = Budget(replace(limits, file_bytes=min(limits.file_bytes, _MAX_OUTPUT)))
    report, data = yield _request(job, job.stdin, budget)
    if report.was_killed:
        report, data = yield _request(job, job.stdin, budget)
    match = _ERRORS.search(data)
    end = match.start() if match else len(data)
    start = max(0, end - int(match[1])) if match else end
    return ScriptResult(
        None if report.cut != NOT_CUT else os.waitstatus_to_exitcode(report.wait_status),
        data[:start].decode("utf-8", "replace"),
        data[start:end].decode("utf-8", "replace"),
        report.cpu_seconds,
        report.wall_seconds,
    )


def _request(job: Job | ScriptJob, text: str | None, budget: Budget) -> Sent:
    limits = budget.limits
    stdin = None if text is None else text.encode("utf-8", "surrogatepass")
    shows_errors = isinstance(job, ScriptJob)
    message = job.program, stdin, isinstance(job, Job) and job.is_reference, shows_errors
    seconds = min(limits.call_seconds, budget.cpu_left)
    own = seconds, rlimits_of(limits, budget.cpu_left, limits.processes), limits.recursion
    idle = (1.0 if shows_errors else limits.wall_factor) * seconds
    # No line of output is known to be an answer: a program shows no progress before its end.
    grant = GRANT.pack(seconds, seconds, budget.seconds_left, limits.wall_factor, idle, 0, STREAM)
    return marshal.dumps((message, own), MARSHAL_VERSION), grant


def _exit_status(report: Report) -> int | None:
    return os.WEXITSTATUS(report.wait_status) if os.WIFEXITED(report.wait_status) else None


def _beginning(text: str, size: int) -> str:
    """The first `size` bytes of an input; all of it for 0, because not all ways to read show how much was read."""
    return text.encode("utf-8", "replace")[: size or None].decode("utf-8", "replace")


def _outcome(report: Report, data: bytes, as_printed: bool) -> Outcome:
    status = _exit_status(report)
    if status is None or report.cut != NOT_CUT:
        return report.death()
    text = data.decode("utf-8", "replace")
    if status == 0:
        return Outcome(Status.RETURNED, encode_output(text, as_printed=as_printed))
    detail = text[:_MAX_DETAIL].encode("ascii", "backslashreplace").decode()
    return Outcome(_STATUSES.get(status, Status.RAISED), detail=detail if detail.isprintable() else "")
