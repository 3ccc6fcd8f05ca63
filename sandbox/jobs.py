"""What the judge is asked and what it answers: frozen, typed, and free of any code that runs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Generic, TypeVar

from sandbox.tolerance import EXACT, Tolerance

R = TypeVar("R")


class Status(StrEnum):
    RETURNED = "returned"
    PASSED = "passed"  # of a test alone: it returned what is expected, or something else
    FAILED = "failed"
    RAISED = "raised"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"  # the process died, or ended without an answer
    NOT_PLAIN_DATA = "not plain data"


class Task(StrEnum):
    """What a program is, and with it what a test of it is."""

    FUNCTION = "function"  # a test is a call of it, and the value that it must return
    CLASS = "class"  # the same, of the function that makes an object and calls its methods: see `sandbox.classes`
    STREAM = "stream"  # a program that reads standard input and writes standard output: a test is the texts of both


# The most that a limit can be: a day, and what the jail and the kernel can still count.
_MOST = {"wall_factor": 1_000, "memory_mb": 1 << 24, "processes": 200, "file_bytes": 1 << 40, "recursion": 1 << 20}
_MOST_SECONDS = 86_400


@dataclass(frozen=True)
class Limits:
    """What one program may use. Raises ValueError for a limit that is not a positive number of its kind, or absurd.

    Seconds are of CPU time, as the kernel accounts for the program's process. A program that uses less than a fiftieth
    of the clock's (asleep, or waiting for a process that it started) is ended after `wall_factor` times as many idle
    seconds, and every program, whatever it does, after as many of the clock.
    """

    call_seconds: float = 1.0  # one call; or one run of a program that reads standard input, with all its processes
    load_seconds: float = 5.0  # executing the program's own statements
    program_seconds: float = 20.0  # everything together, restarts after a fatal call included
    wall_factor: float = 5.0
    memory_mb: int = 512  # address space of each process
    processes: int = 8  # processes and threads alive at once, the program's own included
    file_bytes: int = 1 << 23  # of any one file that it writes, and of one process's answers: a fresh one continues
    recursion: int = 1_000  # depth of Python's stack, unless the program sets it

    def __post_init__(self) -> None:
        for limit in fields(self):
            value, most = getattr(self, limit.name), _MOST.get(limit.name, _MOST_SECONDS)
            if type(value) not in ((int,) if limit.type == "int" else (int, float)):
                kind = "a whole number" if limit.type == "int" else "a number"
                raise ValueError(f"limits.{limit.name} must be {kind}, not {value!r}")
            if not 0 < value <= most:  # which a nan is not
                raise ValueError(f"limits.{limit.name} must be positive and at most {most}, not {value}")

    def lasting(self, seconds: float) -> Limits:
        """The same seconds for loading, for one call and for everything together."""
        return replace(self, call_seconds=seconds, load_seconds=seconds, program_seconds=seconds)

    def halved(self) -> Limits:
        """Half of everything: what a reference must manage with, or its tests would be too close a call for others."""
        seconds = {name: getattr(self, name) / 2 for name in ("call_seconds", "load_seconds", "program_seconds")}
        return replace(self, **seconds, memory_mb=(self.memory_mb + 1) // 2, recursion=(self.recursion + 1) // 2)


class Request(Generic[R]):
    """What a judge can be asked, and is answered by an `R`."""


@dataclass(frozen=True)
class Job(Request["Execution"]):
    """A program, and expressions of the suite language, each with at most one call of the program.

    Each call is answered as if it were the only one: a program that keeps some state answers each in a separate
    process, unless `together` asks for one process for all of them, in order. The one free name of an expression is the
    program's function; `entry_point` is needed only where that is named like a builtin. `limits` of None are the
    judge's. `is_reference` means that the program is trusted: its outcomes carry their `inputs`, and a `ReferenceCache`
    may remember them.

    Of a `stream` the calls are texts to put in, each into a process of its own, which may use `limits.call_seconds`;
    the values are those of `sandbox.streams.encode_output`, with `as_printed` for a checker.
    """

    program: str
    calls: tuple[str, ...] = ()
    limits: Limits | None = None
    entry_point: str = ""
    is_reference: bool = False
    together: bool = False
    task: Task = Task.FUNCTION
    as_printed: bool = False


@dataclass(frozen=True)
class Outcome:
    """`value` is the canonical encoding (see `sandbox.inside.encoding`) where the status is RETURNED; `detail` explains
    the others, and why a checker has refused a value.

    `inputs`, of a reference's call that returned, is the same text for all calls with the same inputs, however they are
    spelled (see `sandbox.inside.inputs`); "" where the inputs cannot be compared.
    """

    status: Status
    value: str | None = None
    detail: str = ""
    inputs: str = ""


@dataclass(frozen=True)
class Execution:
    """What a job did: one outcome per call, in order; where the program did not load, each is the load's failure."""

    loaded: Outcome
    outcomes: tuple[Outcome, ...]
    cpu_seconds: float

    @property
    def valid(self) -> bool:
        return self.loaded.status is Status.RETURNED


@dataclass(frozen=True)
class Test:
    """A call, and the canonical encoding of the value that it must return, up to a tolerance; of a stream, what is put
    in and what must come out.

    Two tests are one if they agree in `inputs` and value, however their calls are spelled. Without `inputs` the call's
    text stands for them.
    """

    __test__ = False  # pytest: not a test class

    call: str = field(compare=False)
    expected: str
    inputs: str = ""
    tolerance: Tolerance = EXACT

    def __post_init__(self) -> None:
        if not self.inputs:
            object.__setattr__(self, "inputs", self.call)


@dataclass(frozen=True)
class JudgeJob:
    """A program and the tests that judge it. Only the calls ever reach the program's process.

    checker: code that decides which outputs of a stream are right besides the expected ones (`sandbox.checkers`).
    """

    program: str
    tests: tuple[Test, ...] = ()
    limits: Limits | None = None
    entry_point: str = ""
    task: Task = Task.FUNCTION
    checker: str = ""

    def execution(self) -> Job:
        """The job whose outcomes decide the tests; a repeated call is evaluated once."""
        calls = tuple(dict.fromkeys(test.call for test in self.tests))
        as_printed = bool(self.checker)
        return Job(self.program, calls, self.limits, self.entry_point, task=self.task, as_printed=as_printed)


@dataclass(frozen=True)
class Verdict:
    status: Status
    value: str | None = None
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED


@dataclass(frozen=True)
class Verdicts:
    loaded: Outcome
    tests: tuple[Verdict, ...]
    cpu_seconds: float

    @property
    def passed(self) -> bool:
        """Whether there are tests and all passed."""
        return bool(self.tests) and all(verdict.passed for verdict in self.tests)

    @property
    def share(self) -> float:
        """The share of tests that passed; 0 of none."""
        return sum(verdict.passed for verdict in self.tests) / max(1, len(self.tests))


def verdict_on(outcome: Outcome, test: Test) -> Verdict:
    """The verdict of one test: what its call did, against the canonical value that it must return."""
    if outcome.value is None:
        return Verdict(outcome.status, None, outcome.detail)
    passed = test.tolerance.same(outcome.value, test.expected)
    return Verdict(Status.PASSED if passed else Status.FAILED, outcome.value, outcome.detail)


@dataclass(frozen=True)
class CheckJob(Request["CheckResult"]):
    """A program and a dataset's own check code: ``check(candidate)``, unittest classes, pytest functions or asserts.

    The check runs isolated, in its own process, and calls of the program carry plain data. With `in_process` it runs in
    the program's process, for checks that need real objects; that is weaker: see `sandbox.inside.checker`. The check as
    a whole may take `limits.program_seconds`.
    """

    program: str
    check: str
    entry_point: str
    limits: Limits | None = None
    in_process: bool = False


@dataclass(frozen=True)
class CheckResult:
    """How a check ended; the verdict's detail explains why it did not pass."""

    loaded: Outcome
    verdict: Verdict
    cpu_seconds: float

    @property
    def passed(self) -> bool:
        return self.verdict.passed


@dataclass(frozen=True)
class ScriptJob(Request["ScriptResult"]):
    """A script, run once on an input for what it prints. It may print anything: no verdict should rest on that alone.

    It may use `limits.call_seconds`, of CPU time and of the clock's while it sleeps.
    """

    program: str
    stdin: str = ""
    limits: Limits | None = None


@dataclass(frozen=True)
class ScriptResult:
    """How a script ended: its exit code, negative for the signal that ended it, or None where its time did."""

    exit_code: int | None
    stdout: str
    stderr: str
    cpu_seconds: float
    wall_seconds: float


class SandboxError(RuntimeError):
    """The judge itself failed. Never a verdict, never a reward."""


class SandboxUnavailable(SandboxError):
    """The judge cannot run on this host; the message is one line that names what is missing and the fix."""
