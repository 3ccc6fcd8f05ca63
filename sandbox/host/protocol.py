"""What the host sends to a zygote, and how it reads the answers, none of which it trusts."""

import marshal
import math
import os
import resource
import signal
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sandbox.bounded import bounded
from sandbox.host.stateless import keeps_no_state
from sandbox.inside import checker, evaluation
from sandbox.inside.watch import CUT_BY_CPU, CUT_BY_WALL, GRANT, NOT_CUT
from sandbox.inside.zygote import REPORT
from sandbox.jobs import (
    CheckJob,
    CheckResult,
    Execution,
    Job,
    Limits,
    Outcome,
    SandboxError,
    Status,
    Verdict,
)
from sandbox.language import MARSHAL_VERSION, ReadCall, read_call

MAX_LINE = 8_192  # characters of one answer that is not a value to be looked into; longer ones are malformed
_MAX_EXACT_LINE = evaluation.MAX_EXACT + MAX_LINE
_OPEN_FILES = 64
_VIEWED_AT_ONCE = 4  # values that are looked into: they are kept whole until then
_ROOM = evaluation.MAX_EXACT  # characters of computed arguments after which the calls are made that they are for
OUT_OF_TIME = Outcome(Status.TIMED_OUT, detail="the program's time as a whole")

_TIME_SIGNALS = (signal.SIGPROF, signal.SIGXCPU, signal.SIGALRM, signal.SIGVTALRM)
_STATUS_OF_SIGN = {
    "=": Status.RETURNED,
    "@": Status.RETURNED,
    checker.RAISED: Status.RAISED,
    checker.NOT_PLAIN_DATA: Status.NOT_PLAIN_DATA,
    checker.OUT_OF_MEMORY: Status.OUT_OF_MEMORY,
    checker.TIMED_OUT: Status.TIMED_OUT,
    checker.CRASHED: Status.CRASHED,
}
_VERDICT_OF_SIGN = _STATUS_OF_SIGN | {checker.PASSED: Status.PASSED, checker.FAILED: Status.FAILED}

# Processes of a job that may take the place of killed ones. The kernel seldom kills for what others did; a program that
# kills itself could else double its processes.
_AGAIN = 8
_KILLED = Verdict(Status.CRASHED, None, f"signal {signal.SIGKILL:d}")


@dataclass(frozen=True)
class Report:
    """The zygote's own account of one child: trusted, unlike what the child wrote."""

    wait_status: int
    cpu_seconds: float
    wall_seconds: float
    cut: int  # whether and why the zygote cut the child short
    idle_load: float = 0.0  # seconds that its loading let pass unused

    @classmethod
    def unpack(cls, data: bytes) -> "Report":
        return cls(*REPORT.unpack(data))

    @property
    def was_killed(self) -> bool:
        """Whether the child was not killed by the zygote but by itself, or by the kernel for lack of memory."""
        return self.cut == NOT_CUT and self.wait_status & 0x7F == signal.SIGKILL

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


def _outcome(line: str) -> Outcome:
    status = _STATUS_OF_SIGN.get(line[:1])
    content, _, inputs = line[1:].partition("\t")
    longest = _MAX_EXACT_LINE if line[:1] == "@" else MAX_LINE
    if status is None or len(line) > longest or not (line.isascii() and content.isprintable() and inputs.isprintable()):
        return Outcome(Status.CRASHED, detail="malformed answer")
    if status is Status.RETURNED:
        return Outcome(status, value=content, inputs=inputs)
    return Outcome(status, detail=content)


@dataclass
class Budget:
    """What is left of a job's limits for processes of one kind: the program's, or those that hold no program."""

    limits: Limits
    cpu_seconds: float = 0.0  # used so far
    wall_seconds: float = 0.0
    idle_load: float = 0.0  # idle seconds of loading: granted once, or a job could sleep in each of its processes
    again: int = _AGAIN  # processes that may still take the place of one that was killed

    @property
    def cpu_left(self) -> float:
        return self.limits.program_seconds - self.cpu_seconds

    @property
    def is_spent(self) -> bool:
        factor = self.limits.wall_factor
        wall, idle = factor * self.limits.program_seconds, factor * self.limits.load_seconds
        return self.cpu_left <= 0 or self.wall_seconds >= wall or self.idle_load >= idle

    def grant(self, asked: int) -> bytes:
        """What the zygote gets about the next process: the time for its loading, for one item, and in all."""
        limits = self.limits
        total = min(self.cpu_left, limits.program_seconds - self.wall_seconds / limits.wall_factor)
        idle = limits.wall_factor * limits.load_seconds - self.idle_load
        seconds = (limits.load_seconds, limits.call_seconds, total, limits.wall_factor, idle)
        return GRANT.pack(*seconds, 1 + asked, False)

    def charge(self, report: Report) -> None:
        """Count what a process has used."""
        self.cpu_seconds += report.cpu_seconds
        self.wall_seconds += report.wall_seconds
        self.idle_load += report.idle_load


@dataclass
class Batch:
    """Items for processes of one program (of none: ""), one process after another until each item has an outcome.

    A process that dies costs the item at which it died, and nothing else. One that is killed may have been killed for
    what others did, so that another takes its place once. With `room`, items are left over where the outcomes before
    them have more characters.
    """

    program: str
    items: Sequence[evaluation.Item]
    budget: Budget
    alone: bool = False  # a process for each item
    tells_inputs: bool = False
    room: int = 0
    loaded: Outcome | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    _killed_at: int = -1  # how many outcomes there were when a process was last killed

    @property
    def left(self) -> int:
        """Items that have no outcome yet."""
        return len(self.items) - len(self.outcomes)

    @property
    def done(self) -> bool:
        return self.loaded is not None and (not self.left or self._is_full())

    def request(self) -> tuple[bytes, bytes]:
        """What the next process reads (the program, its items, and the limits on itself), and what the zygote gets."""
        limits, cpu_left = self.budget.limits, self.budget.cpu_left
        load = min(limits.load_seconds, cpu_left)
        rlimits = _rlimits(limits, cpu_left, limits.processes)
        done = len(self.outcomes)
        items = list(self.items[done : done + self._asked()])
        question = (self.program, items, load, limits.call_seconds, self.tells_inputs)
        text = marshal.dumps((*question, rlimits, limits.recursion), MARSHAL_VERSION)
        return text, self.budget.grant(len(items))

    def absorb(self, report: Report, data: bytes) -> None:
        """Take in the answers of a process that has ended."""
        self.budget.charge(report)
        asked = self._asked()
        lines = data.decode("ascii", "replace").split("\n", asked + 2)[:-1]
        found = [_outcome(line) for line in lines[: 1 + asked] if line != "~"]
        if len(found) < 1 + asked and self._tries_again(report, len(found)):
            self.outcomes += found[1:]
            return
        load, *answers = found or [report.death()]
        gives_up = bool(answers) and lines[-1] == "~"  # a new process answers the rest
        self.loaded = self.loaded or load
        if load.status is not Status.RETURNED:
            self.outcomes += [load] * self.left
            return
        self.outcomes += answers
        out_of_room = bool(answers) and len(data) > self.budget.limits.file_bytes - _MAX_EXACT_LINE
        if len(answers) < asked and not out_of_room and not gives_up:
            self.outcomes.append(report.death())
        if self.budget.is_spent:
            self.outcomes += [OUT_OF_TIME] * self.left

    def _tries_again(self, report: Report, lines: int) -> bool:
        """Whether a process was killed where none was before, and there is time for another."""
        place = len(self.outcomes) + lines
        if not report.was_killed or place == self._killed_at or self.budget.is_spent or not self.budget.again:
            return False
        self.budget.again -= 1
        self._killed_at = place
        return True

    def _is_full(self) -> bool:
        return bool(self.room) and sum(len(outcome.value or "") for outcome in self.outcomes) > self.room

    def _asked(self) -> int:
        """Items for the next process."""
        return min(self.left, 1) if self.alone else self.left


class Progress:
    """One job on its way, in three kinds of batches.

    First what needs no program: arguments that are not literals, and expressions. Then the program's own calls, on
    values. Last the views of what it returned, again without the program. Large values take turns, so that no process
    is given more of them than leave it its memory.
    """

    def __init__(self, job: Job, limits: Limits) -> None:
        self.job = job
        self.limits = limits
        self._loaded: Outcome | None = None
        self._outcomes: dict[int, Outcome] = {}
        self._of_program, self._of_others = Budget(limits), Budget(limits)
        self._batches = self._planned()
        self._batch: Batch | None = None

    def request(self) -> tuple[bytes, bytes]:
        """What the next process reads, and what the zygote gets about it. Raises OutsideLanguage."""
        if self._batch is None:
            self._batch = next(self._batches)
        return self._batch.request()

    def absorb(self, report: Report, data: bytes) -> Execution | None:
        """Take in the answers of a process that has ended; None where another one must follow."""
        assert self._batch is not None
        self._batch.absorb(report, data)
        if self._batch.done:
            self._batch = next(self._batches, None)
        if self._batch is not None:
            return None
        outcomes = tuple(self._outcomes[i] for i in range(len(self.job.calls)))
        cpu_seconds = self._of_program.cpu_seconds + self._of_others.cpu_seconds
        return Execution(self._loaded or Outcome(Status.RETURNED, "None"), outcomes, cpu_seconds)

    def _planned(self) -> Iterator[Batch]:
        """The batches, each planned by what those before it found."""
        job = self.job
        calls = [read_call(call, job.entry_point) for call in job.calls]
        items: dict[int, evaluation.Item] = {}
        clean: dict[int, evaluation.Item] = {}
        for i, call in enumerate(calls):
            if isinstance(call.arguments, bytes):
                items[i] = _item(call, call.arguments)
            else:
                clean[i] = "expression", bounded(call.arguments), call.function is not None
        while clean:
            for i, outcome in (yield from self._answers("", clean)).items():
                del clean[i]
                if calls[i].function and outcome.value is not None:
                    items[i] = _item(calls[i], outcome.value)
                else:
                    self._outcomes[i] = outcome
            if clean and items and not job.together:
                yield from self._calls(calls, items)
                items = {}
        if items or not calls or (job.program and self._loaded is None):
            yield from self._calls(calls, items)

    def _calls(self, calls: Sequence[ReadCall], items: dict[int, evaluation.Item]) -> Generator[Batch, None, None]:
        """Makes some of the program's calls."""
        items = dict(sorted(items.items()))
        for group in [items] if self.job.together else _in_groups(items):
            returned = yield from self._answers(self.job.program, group)
            self._outcomes |= returned
            views: dict[int, evaluation.Item] = {
                i: ("view", bounded(view), outcome.value)
                for i, outcome in returned.items()
                if (view := calls[i].view) is not None and outcome.value is not None
            }
            seen = (yield from self._answers("", views)) if views else {}
            self._outcomes |= {i: replace(outcome, inputs=returned[i].inputs) for i, outcome in seen.items()}

    def _answers(
        self, program: str, items: Mapping[int, evaluation.Item]
    ) -> Generator[Batch, None, dict[int, Outcome]]:
        """What becomes of each item, or of the first ones where they are expressions with large values."""
        job, budget = self.job, self._of_program if program else self._of_others
        if budget.is_spent:
            return dict.fromkeys(items, OUT_OF_TIME)
        alone = bool(program) and not job.together and not keeps_no_state(program)
        room = 0 if program else _ROOM
        batch = Batch(program, tuple(items.values()), budget, alone, job.is_reference, room)
        yield batch
        if program:
            self._loaded = batch.loaded
        return dict(zip(items, batch.outcomes, strict=not room))


def _item(call: ReadCall, arguments: bytes | str) -> evaluation.Item:
    return "call", call.function, arguments, call.view is not None


def _in_groups(items: Mapping[int, evaluation.Item]) -> Iterator[dict[int, evaluation.Item]]:
    """Calls whose values are texts, all at once; then, few at a time, those whose values are kept to be looked into."""
    exact = [i for i, (*_, is_exact) in items.items() if is_exact]
    if len(exact) < len(items) or not items:
        yield {i: item for i, item in items.items() if i not in exact}
    for start in range(0, len(exact), _VIEWED_AT_ONCE):
        yield {i: items[i] for i in exact[start : start + _VIEWED_AT_ONCE]}


@dataclass
class CheckProgress:
    """One check on its way; once more where a process of it is killed, as in `Batch`."""

    job: CheckJob
    limits: Limits
    _was_killed: bool = False

    def request(self) -> tuple[bytes, bytes]:
        """What the judge's process in the jail reads, and what the zygote gets about it.

        A check shows no progress between the program's loading and the verdict.
        """
        job, limits = self.job, self.limits
        rlimits = _rlimits(limits, limits.program_seconds, limits.processes + 1)
        message = (
            *(job.program, job.check, job.entry_point, job.in_process, rlimits),
            *(limits.load_seconds, limits.call_seconds, limits.program_seconds),
        )
        total, factor = limits.program_seconds, limits.wall_factor
        grant = GRANT.pack(total, total, total, factor, factor * total, 2, True)
        return marshal.dumps(message, MARSHAL_VERSION), grant

    def absorb(self, report: Report, data: bytes) -> CheckResult | None:
        """Take in the two lines of the judge's process; None where another must follow.

        Raises SandboxError where it could start no other.
        """
        if os.WIFEXITED(report.wait_status) and os.WEXITSTATUS(report.wait_status) == checker.CANNOT_START:
            raise SandboxError("a check's program cannot be started: the host has no room for another process")
        load, *verdicts = data.decode("ascii", "replace").split("\n")[:-1] or [""]
        loaded = _outcome(load) if load else report.death()
        if loaded.status is Status.RETURNED and verdicts:
            verdict = Verdict(_VERDICT_OF_SIGN.get(verdicts[0][:1], Status.CRASHED), None, verdicts[0][1:])
        else:
            end = report.death() if loaded.status is Status.RETURNED else loaded
            verdict = Verdict(end.status, None, end.detail)
        if verdict == _KILLED and not self._was_killed:
            self._was_killed = True
            return None
        return CheckResult(loaded, verdict, report.cpu_seconds)


def progress_of(job: Job | CheckJob, limits: Limits) -> Progress | CheckProgress:
    """A job that nothing has been done about yet."""
    return Progress(job, limits) if isinstance(job, Job) else CheckProgress(job, limits)


def _rlimits(limits: Limits, cpu_seconds: float, processes: int) -> tuple[tuple[int, int], ...]:
    return (
        (resource.RLIMIT_AS, limits.memory_mb << 20),
        (resource.RLIMIT_CPU, math.ceil(cpu_seconds) + 1),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NPROC, processes + 1),  # the zygote counts too
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    )
