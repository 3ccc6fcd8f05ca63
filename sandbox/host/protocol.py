"""What the host sends to a zygote, and how it reads the answers, none of which it trusts."""

import marshal
import math
import os
import resource
import signal
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from sandbox.grammar import bounded
from sandbox.host.stateless import keeps_no_state
from sandbox.inside import checker, evaluation
from sandbox.inside.watch import CHECK, CUT_BY_CPU, CUT_BY_WALL, EVALUATION, GRANT, NOT_CUT
from sandbox.inside.zygote import REPORT
from sandbox.jobs import CheckJob, CheckResult, Execution, Job, Limits, Outcome, SandboxError, Status, Verdict
from sandbox.language import MARSHAL_VERSION, OutsideLanguage, ReadCall, read_call

T = TypeVar("T")

PIPELINE = 4  # requests queued with one zygote, so that it never waits for the host
MAX_LINE = 8_192  # characters of one answer that is not a value to be looked into; longer ones are malformed
_SHORT_LINE = 64
_MAX_EXACT_LINE = evaluation.MAX_EXACT + MAX_LINE
_OPEN_FILES = 64
_READING_SECONDS = 2.0  # of CPU time for a job's calls, besides as many as its program has
_VIEWED_AT_ONCE = 4  # values that are looked into: they are kept whole until then
_ROOM = evaluation.MAX_EXACT  # characters of computed arguments after which the calls are made that they are for
OUT_OF_TIME = Outcome(Status.TIMED_OUT, detail="the program's time as a whole")

_ENDS = {
    checker.RAISED: Status.RAISED,
    checker.NOT_PLAIN_DATA: Status.NOT_PLAIN_DATA,
    checker.OUT_OF_MEMORY: Status.OUT_OF_MEMORY,
    checker.TIMED_OUT: Status.TIMED_OUT,
    checker.CRASHED: Status.CRASHED,
}
_STATUS_OF_SIGN = _ENDS | {"=": Status.RETURNED, "@": Status.RETURNED}
_VERDICT_OF_SIGN = _ENDS | {checker.PASSED: Status.PASSED, checker.FAILED: Status.FAILED}

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
        if self.cut == CUT_BY_WALL:
            return Outcome(Status.TIMED_OUT, detail="wall-clock time")
        if self.cut == CUT_BY_CPU:
            return Outcome(Status.TIMED_OUT, detail="CPU time")
        return _outcome(checker.death(self.wait_status))


def _read(data: bytes, asked: int) -> tuple[list[Outcome], bool]:
    """The outcomes of a program's loading and of the items asked; whether a fresh process is to answer the rest."""
    lines = data.decode("ascii", "replace").split("\n", asked + 2)[:-1]
    return [_outcome(line) for line in lines[: 1 + asked] if line != "~"], lines[-1:] == ["~"]


def _outcome(line: str) -> Outcome:
    return _short_outcome(line) if len(line) < _SHORT_LINE else _read_outcome(line)


def _read_outcome(line: str) -> Outcome:
    status = _STATUS_OF_SIGN.get(line[:1])
    content, _, inputs = line[1:].partition("\t")
    longest = _MAX_EXACT_LINE if line[:1] == "@" else MAX_LINE
    if status is None or len(line) > longest or not (line.isascii() and content.isprintable() and inputs.isprintable()):
        return Outcome(Status.CRASHED, detail="malformed answer")
    if status is Status.RETURNED:
        return Outcome(status, value=content, inputs=inputs)
    return Outcome(status, detail=content)


_short_outcome = lru_cache(maxsize=1 << 14)(_read_outcome)  # many programs return the same few values


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
    def seconds_left(self) -> float:
        """Of CPU time, and of the clock's divided by its factor."""
        return min(self.cpu_left, self.limits.program_seconds - self.wall_seconds / self.limits.wall_factor)

    @property
    def is_spent(self) -> bool:
        factor = self.limits.wall_factor
        wall, idle = factor * self.limits.program_seconds, factor * self.limits.load_seconds
        return self.cpu_left <= 0 or self.wall_seconds >= wall or self.idle_load >= idle

    def grant(self, asked: int) -> bytes:
        limits = self.limits
        idle = limits.wall_factor * limits.load_seconds - self.idle_load
        seconds = (limits.load_seconds, limits.call_seconds, self.seconds_left, limits.wall_factor, idle)
        return GRANT.pack(*seconds, 1 + asked, EVALUATION)

    def starts_another(self) -> bool:
        """Whether a process may take the place of one that was killed; counts it."""
        if self.is_spent or not self.again:
            return False
        self.again -= 1
        return True

    def charge(self, report: Report) -> None:
        self.cpu_seconds += report.cpu_seconds
        self.wall_seconds += report.wall_seconds
        self.idle_load += report.idle_load


Sent = tuple[bytes, bytes]  # what the next process reads, and what the zygote gets about it
Ran = tuple[Report, bytes]  # what it did, and what it answered
Steps = Generator[Sent, Ran, T]


class Evaluation:
    """One job of a function, in three kinds of steps.

    First what needs no program: arguments that are not literals, and expressions. Then the program's own calls, on
    values. Last the views of what it returned, again without the program. Large values take turns, so that no process
    is given more of them than leave it its memory.
    """

    def __init__(self, job: Job, limits: Limits) -> None:
        self._job = job
        self._of_program, self._of_others = Budget(limits), Budget(limits)
        self._loaded: Outcome | None = None
        self._outcomes: dict[int, Outcome] = {}

    def steps(self) -> Steps[Execution]:
        """All of it, each step planned by what those before it found. Raises OutsideLanguage.

        Calls are parsed here, within a time that depends on the job's: whoever sends them chooses their length.
        """
        job = self._job
        calls: list[ReadCall] = []
        items: dict[int, evaluation.Item] = {}
        clean: dict[int, evaluation.Item] = {}
        until = time.thread_time() + self._of_program.limits.program_seconds + _READING_SECONDS
        for i, text in enumerate(job.calls):
            if time.thread_time() > until:
                raise OutsideLanguage(f"its {len(job.calls)} calls take longer to be read than its program may run")
            call = read_call(text, job.entry_point)
            calls.append(call)
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
        outcomes = tuple(self._outcomes[i] for i in range(len(calls)))
        cpu_seconds = self._of_program.cpu_seconds + self._of_others.cpu_seconds
        return Execution(self._loaded or Outcome(Status.RETURNED, "None"), outcomes, cpu_seconds)

    def _calls(self, calls: Sequence[ReadCall], items: dict[int, evaluation.Item]) -> Steps[None]:
        items = dict(sorted(items.items()))
        for group in [items] if self._job.together else _in_groups(items):
            returned = yield from self._answers(self._job.program, group)
            self._outcomes |= returned
            views: dict[int, evaluation.Item] = {
                i: ("view", bounded(view), outcome.value)
                for i, outcome in returned.items()
                if (view := calls[i].view) is not None and outcome.value is not None
            }
            seen = (yield from self._answers("", views)) if views else {}
            self._outcomes |= {i: replace(outcome, inputs=returned[i].inputs) for i, outcome in seen.items()}

    def _answers(self, program: str, items: Mapping[int, evaluation.Item]) -> Steps[dict[int, Outcome]]:
        """What becomes of each item, or without a program of the first ones, where they have large values.

        A process that dies costs the item at which it died, and nothing else. One that is killed may have been killed
        for what others did, so that another takes its place once.
        """
        budget = self._of_program if program else self._of_others
        if budget.is_spent:
            return dict.fromkeys(items, OUT_OF_TIME)
        alone = len(items) > 1 and bool(program) and not self._job.together and not keeps_no_state(program)
        every = list(items.values())
        outcomes: list[Outcome] = []
        loaded, killed_at = None, -1
        while loaded is None or (len(outcomes) < len(every) and (program or _size(outcomes) <= _ROOM)):
            asked = every[len(outcomes) : len(outcomes) + 1 if alone else None]
            report, data = yield self._request(program, asked, budget)
            budget.charge(report)
            answered, gives_up = _read(data, len(asked))
            is_short, died_at = len(answered) < 1 + len(asked), len(outcomes) + len(answered)
            if is_short and report.was_killed and died_at != killed_at and budget.starts_another():
                killed_at = died_at
                outcomes += answered[1:]
                continue
            load, *answers = answered or [report.death()]
            loaded = loaded or load
            if load.status is not Status.RETURNED:
                answers = [load] * (len(every) - len(outcomes))
            elif is_short and not (answers and (gives_up or len(data) > budget.limits.file_bytes - _MAX_EXACT_LINE)):
                answers.append(report.death())
            outcomes += answers
            if budget.is_spent:
                outcomes += [OUT_OF_TIME] * (len(every) - len(outcomes))
        if program:
            self._loaded = loaded
        return dict(zip(items, outcomes, strict=bool(program)))

    def _request(self, program: str, asked: list[evaluation.Item], budget: Budget) -> Sent:
        limits, cpu_left = budget.limits, budget.cpu_left
        question = (program, asked, min(limits.load_seconds, cpu_left), limits.call_seconds)
        rlimits = rlimits_of(limits, cpu_left, limits.processes)
        message = (*question, self._job.is_reference, rlimits, limits.recursion)
        return marshal.dumps(message, MARSHAL_VERSION), budget.grant(len(asked))


def _item(call: ReadCall, arguments: bytes | str) -> evaluation.Item:
    return "call", call.function, arguments, call.view is not None


def _in_groups(items: Mapping[int, evaluation.Item]) -> Iterator[dict[int, evaluation.Item]]:
    """Calls whose values are texts, all at once; then, few at a time, those whose values are kept to be looked into."""
    exact = [i for i, (*_, is_exact) in items.items() if is_exact]
    if len(exact) < len(items) or not items:
        yield {i: item for i, item in items.items() if i not in exact}
    for start in range(0, len(exact), _VIEWED_AT_ONCE):
        yield {i: items[i] for i in exact[start : start + _VIEWED_AT_ONCE]}


def _size(outcomes: Sequence[Outcome]) -> int:
    return sum(len(outcome.value or "") for outcome in outcomes)


def check_steps(job: CheckJob, limits: Limits) -> Steps[CheckResult]:
    """One check; once more where a process of it is killed, as above. Raises SandboxError where none can be started."""
    message = (
        *(job.program, job.check, job.entry_point, job.in_process),
        *(rlimits_of(limits, limits.program_seconds, limits.processes + 1), limits.load_seconds),
        *(limits.call_seconds, limits.program_seconds),
    )
    total, factor = limits.program_seconds, limits.wall_factor
    # A check shows no progress between the program's loading and the verdict.
    grant = GRANT.pack(total, total, total, factor, factor * total, 2, CHECK)
    report, data = yield marshal.dumps(message, MARSHAL_VERSION), grant
    result = _check_result(report, data)
    if result.verdict == _KILLED:
        report, data = yield marshal.dumps(message, MARSHAL_VERSION), grant
        result = _check_result(report, data)
    return result


def _check_result(report: Report, data: bytes) -> CheckResult:
    if os.WIFEXITED(report.wait_status) and os.WEXITSTATUS(report.wait_status) == checker.CANNOT_START:
        raise SandboxError("a check's program cannot be started: the host has no room for another process")
    load, *verdicts = data.decode("ascii", "replace").split("\n")[:-1] or [""]
    loaded = _outcome(load) if load else report.death()
    if loaded.status is Status.RETURNED and verdicts:
        verdict = Verdict(_VERDICT_OF_SIGN.get(verdicts[0][:1], Status.CRASHED), None, verdicts[0][1:])
    else:
        end = report.death() if loaded.status is Status.RETURNED else loaded
        verdict = Verdict(end.status, None, end.detail)
    return CheckResult(loaded, verdict, report.cpu_seconds)


def rlimits_of(limits: Limits, cpu_seconds: float, processes: int) -> tuple[tuple[int, int], ...]:
    """The kernel's own limits on one process of a job, which may use `cpu_seconds`."""
    return (
        (resource.RLIMIT_AS, limits.memory_mb << 20),
        (resource.RLIMIT_CPU, math.ceil(1.5 * cpu_seconds) + 1),  # in ticks: see evaluation.allow_cpu
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NPROC, processes + 1),  # the zygote counts too
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    )
