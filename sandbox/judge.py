"""What every judge can do, wherever its programs run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Self, TypeVar

from sandbox.jobs import JudgeJob, Limits, R, Request, Verdicts

S = TypeVar("S")
T = TypeVar("T")


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
        return then(self.submit(job.execution()), job.verdicts)

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

    def finish(done: Future[S]) -> None:
        try:
            second.set_result(function(done.result()))
        except BaseException as error:  # noqa: BLE001  (whatever it is, whoever waits gets it)
            second.set_exception(error)

    first.add_done_callback(finish)
    return second


def in_thread(function: Callable[[], T], name: str) -> Future[T]:
    """The future of `function`, called in a thread that does not keep the process alive."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001  (whoever asks for the result gets it)
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future
