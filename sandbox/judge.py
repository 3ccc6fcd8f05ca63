"""What every judge can do, wherever its programs run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import BoundedSemaphore, Thread
from typing import Self, TypeVar

from sandbox import checkers
from sandbox.jobs import (
    CheckResult,
    Execution,
    JudgeJob,
    Limits,
    Outcome,
    R,
    Request,
    SandboxError,
    Verdicts,
    verdict_on,
)

S = TypeVar("S")
T = TypeVar("T")

_CHECKING = BoundedSemaphore(32)  # jobs whose outputs a checker looks at, each followed by a thread


class Judge(ABC):
    """Takes jobs and gives futures; a future raises SandboxError where the machinery, not the program, failed."""

    limits: Limits
    """What a program may use whose job sets no limits."""
    memory_limit = "not known"
    """What limits the memory of programs where they run."""

    @abstractmethod
    def submit(self, job: Request[R]) -> Future[R]:
        """Run one program and its calls, or a dataset's own check against one program."""

    @abstractmethod
    def close(self) -> None:
        """Finish what was submitted, then let go of everything."""

    def submit_judge(self, job: JudgeJob) -> Future[Verdicts]:
        """The verdicts on a job's tests; with a checker it waits while many jobs are under way."""
        execution = job.execution()
        running = self.submit(execution)

        def judged(ran: Execution) -> Verdicts:
            by_call = dict(zip(execution.calls, ran.outcomes, strict=True))
            outcomes = self.checked(job.checker, [(test.call, by_call[test.call], test.expected) for test in job.tests])
            return Verdicts(ran.loaded, tuple(map(verdict_on, outcomes, job.tests)), ran.cpu_seconds)

        if not job.checker:
            return then(running, judged)
        _CHECKING.acquire()
        future = in_thread(lambda: judged(running.result()), "checker")
        future.add_done_callback(lambda _: _CHECKING.release())
        return future

    def checked(self, checker: str, asked: Sequence[tuple[str, Outcome, str | None]]) -> list[Outcome]:
        """What a program did with each input, given as (input, outcome, expected value): an output that the checker
        accepts with the expected value. Without an expected value, or without a checker, an outcome stays as it is.

        An output that is too long to be read is refused unasked, and one that makes the checker fail as long as the
        expected one does not: else the checker is at fault, which raises SandboxError.
        """

        def ask(given: str, value: str, expected: str) -> Future[CheckResult]:
            return self.submit(checkers.question(checker, given, value, expected))

        found = [outcome for _, outcome, _ in asked]
        asking = {
            i: (ask(given, did.value, expected), given, expected)
            for i, (given, did, expected) in enumerate(asked)
            if checker and expected is not None and did.value not in (None, expected) and did.value[:7] != "sha256:"
        }
        for i, (answer, given, expected) in asking.items():
            if answer.result().passed:
                found[i] = replace(found[i], value=expected)
            elif fault := checkers.fault(answer.result()):
                if own := checkers.fault(ask(given, expected, expected).result()):
                    raise SandboxError(f"a checker gives no answer to the expected output: it {own}")
                found[i] = replace(found[i], detail=f"the checker {fault}")
        return found

    def execute(self, jobs: Sequence[Request[R]]) -> list[R]:
        return [future.result() for future in [self.submit(job) for job in jobs]]

    def judge(self, jobs: Sequence[JudgeJob]) -> list[Verdicts]:
        return [future.result() for future in [self.submit_judge(job) for job in jobs]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()


def then(first: Future[S], function: Callable[[S], T]) -> Future[T]:
    """The future of `function` of what `first` gives; it fails as `first` does."""
    second: Future[T] = Future()
    second.set_running_or_notify_cancel()
    first.add_done_callback(lambda done: _settle(second, lambda: function(done.result())))
    return second


def in_thread(function: Callable[[], T], name: str) -> Future[T]:
    """The future of `function`, called in a thread that does not keep the process alive."""
    future: Future[T] = Future()
    Thread(target=_settle, args=(future, function), name=name, daemon=True).start()
    return future


def _settle(future: Future[T], function: Callable[[], T]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:  # noqa: BLE001  (whatever it is, whoever waits gets it)
        future.set_exception(error)
