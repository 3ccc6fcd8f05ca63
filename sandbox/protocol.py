"""What the host says to a zygote, and how it reads the answers, none of which it trusts."""

import marshal
import math
import resource
import signal
from dataclasses import dataclass, field

from sandbox import checker
from sandbox.jobs import (
    CheckJob,
    CheckResult,
    Execution,
    Job,
    Limits,
    Outcome,
    Status,
    Verdict,
    VerdictStatus,
)
from sandbox.language import MARSHAL_VERSION, read_call
from sandbox.watch import CUT_BY_CPU, CUT_BY_WALL, GRANT
from sandbox.zygote import REPORT

MAX_LINE = 4_096  # characters of one answer; longer ones are malformed
_OPEN_FILES = 64

_TIME_SIGNALS = (signal.SIGPROF, signal.SIGXCPU, signal.SIGALRM, signal.SIGVTALRM)
_STATUS_OF_SIGN = {
    "=": Status.RETURNED,
    "!": Status.RAISED,
    "?": Status.NOT_PLAIN_DATA,
    "m": Status.OUT_OF_MEMORY,
    "t": Status.TIMED_OUT,
    "c": Status.CRASHED,
}
_VERDICT_OF_SIGN = {
    checker.PASSED: VerdictStatus.PASSED,
    checker.FAILED: VerdictStatus.FAILED,
    checker.RAISED: VerdictStatus.RAISED,
    checker.TIMED_OUT: VerdictStatus.TIMED_OUT,
    checker.OUT_OF_MEMORY: VerdictStatus.OUT_OF_MEMORY,
    checker.CRASHED: VerdictStatus.CRASHED,
    checker.NOT_PLAIN_DATA: VerdictStatus.NOT_PLAIN_DATA,
}


@dataclass(frozen=True)
class Report:
    """The zygote's own account of one child: trusted, unlike what the child wrote."""

    wait_status: int
    cpu_seconds: float
    wall_seconds: float
    cut: int  # whether and why the zygote cut the child short

    @classmethod
    def unpack(cls, data: bytes) -> "Report":
        return cls(*REPORT.unpack(data))

    def death(self) -> Outcome:
        """The outcome of the call during which the child ended."""
        if self.cut == CUT_BY_WALL:
            return Outcome(Status.TIMED_OUT, detail="wall-clock time")
        number = self.wait_status & 0x7F
        if self.cut == CUT_BY_CPU or number in _TIME_SIGNALS:
            return Outcome(Status.TIMED_OUT, detail="CPU time")
        if number:
            return Outcome(Status.CRASHED, detail=f"signal {number}")
        return Outcome(Status.CRASHED, detail=f"exit status {self.wait_status >> 8}")


def read_answers(data: bytes, calls: int) -> list[Outcome]:
    """The outcomes that a child wrote: the load's, then those of at most `calls` calls. An unfinished last line is left
    out.
    """
    return [_outcome(line) for line in data.decode("ascii", "replace").split("\n", calls + 1)[:-1]]


def _outcome(line: str) -> Outcome:
    status = _STATUS_OF_SIGN.get(line[:1])
    if status is None or len(line) > MAX_LINE or not (line.isascii() and line.isprintable()):
        return Outcome(Status.CRASHED, detail="malformed answer")
    if status is Status.RETURNED:
        return Outcome(status, value=line[1:])
    return Outcome(status, detail=line[1:])


@dataclass
class Progress:
    """One job on its way: after a death in the middle, a fresh child resumes at the next call."""

    job: Job
    limits: Limits
    loaded: Outcome | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0

    @property
    def left(self) -> int:
        """Calls that have no outcome yet."""
        return len(self.job.calls) - len(self.outcomes)

    @property
    def done(self) -> bool:
        return self.loaded is not None and not self.left

    def request(self) -> bytes:
        """What the child reads: the program, the calls still to be made, and the limits on itself. Raises
        OutsideLanguage.
        """
        calls = [read_call(call, self.job.entry_point) for call in self.job.calls[len(self.outcomes) :]]
        names = frozenset[str]().union(*[call.names for call in calls])
        load = min(self.limits.load_seconds, self._cpu_left())
        rlimits = _rlimits(self.limits, self._cpu_left(), self.limits.processes)
        forms = [call.form for call in calls]
        message = (self.job.program, forms, tuple(names), rlimits, load, self.limits.call_seconds)
        return marshal.dumps(message, MARSHAL_VERSION)

    def grant(self) -> bytes:
        """What the zygote is told: the time for the load, for one call, and for what is left in all."""
        limits = self.limits
        total = min(self._cpu_left(), limits.program_seconds - self.wall_seconds / limits.wall_factor)
        seconds = (limits.load_seconds, limits.call_seconds, total, limits.wall_factor)
        return GRANT.pack(*seconds, 1 + self.left, False)

    def absorb(self, report: Report, data: bytes) -> None:
        """Take in the answers of a child that has ended."""
        self.cpu_seconds += report.cpu_seconds
        self.wall_seconds += report.wall_seconds
        load, *answers = read_answers(data, self.left) or [report.death()]
        self.loaded = self.loaded or load
        if load.status is not Status.RETURNED:
            self.outcomes += [load] * self.left
            return
        self.outcomes += answers
        out_of_room = bool(answers) and len(data) > self.limits.output_bytes - MAX_LINE
        if self.left and not out_of_room:
            self.outcomes.append(report.death())
        if self._cpu_left() <= 0 or self.wall_seconds >= self.limits.wall_factor * self.limits.program_seconds:
            self.outcomes += [Outcome(Status.TIMED_OUT, detail="the program's time as a whole")] * self.left

    def result(self) -> Execution:
        assert self.loaded is not None
        return Execution(self.loaded, tuple(self.outcomes), self.cpu_seconds)

    def _cpu_left(self) -> float:
        return self.limits.program_seconds - self.cpu_seconds


@dataclass
class CheckProgress:
    """One check on its way."""

    job: CheckJob
    limits: Limits
    answer: CheckResult | None = None

    @property
    def done(self) -> bool:
        return self.answer is not None

    def request(self) -> bytes:
        """What the judge's process in the jail reads."""
        job, limits = self.job, self.limits
        rlimits = _rlimits(limits, limits.program_seconds, limits.processes + 1)
        message = (
            *(job.program, job.check, job.entry_point, job.beside, rlimits),
            *(limits.load_seconds, limits.call_seconds, limits.program_seconds),
        )
        return marshal.dumps(message, MARSHAL_VERSION)

    def grant(self) -> bytes:
        """What the zygote is told: a check shows no progress between the program's loading and the verdict."""
        total = self.limits.program_seconds
        return GRANT.pack(total, total, total, self.limits.wall_factor, 2, True)

    def absorb(self, report: Report, data: bytes) -> None:
        """Take in the two lines of the judge's process."""
        load, *verdicts = data.decode("ascii", "replace").split("\n")[:-1] or [""]
        loaded = _outcome(load) if load else report.death()
        if loaded.status is not Status.RETURNED:
            verdict = Verdict(VerdictStatus(loaded.status.value), None, loaded.detail)
        elif verdicts:
            sign, detail = verdicts[0][:1], verdicts[0][1:]
            verdict = Verdict(_VERDICT_OF_SIGN.get(sign, VerdictStatus.CRASHED), None, detail)
        else:
            death = report.death()
            verdict = Verdict(VerdictStatus(death.status.value), None, death.detail)
        self.answer = CheckResult(loaded, verdict, report.cpu_seconds)

    def result(self) -> CheckResult:
        assert self.answer is not None
        return self.answer


def _rlimits(limits: Limits, cpu_seconds: float, processes: int) -> tuple[tuple[int, int], ...]:
    return (
        (resource.RLIMIT_AS, limits.memory_mb << 20),
        (resource.RLIMIT_CPU, math.ceil(cpu_seconds) + 1),
        (resource.RLIMIT_FSIZE, max(limits.file_bytes, limits.output_bytes)),
        (resource.RLIMIT_NPROC, processes + 1),  # the zygote counts too
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    )
