"""A judge whose work is done by services on other hosts, each of them `sandbox.remote.server`."""

import dataclasses
import functools
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from sandbox.jobs import (
    CheckJob,
    CheckResult,
    Execution,
    Job,
    Limits,
    R,
    Request,
    SandboxError,
    SandboxUnavailable,
    Status,
    Task,
)
from sandbox.judge import Judge
from sandbox.language import read_call
from sandbox.remote import wire
from sandbox.remote.bearer import VARIABLE
from sandbox.remote.hedging import Hedging
from sandbox.remote.race import Failed, Race, Refused, as_object
from sandbox.remote.replicas import FAILURES, Replica, Replicas

logger = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 300.0  # seconds of all attempts: a service may start again, or have too much to do
_PAUSE = 0.05  # seconds between looks for a replica that takes a job
_PENDING = 64  # requests submitted and not answered, for each connection


class RemoteJudge(Judge):
    """Asks the services at `addresses` (``http://host:port``), over that many `connections` (None: 16 for each).

    A name that resolves to several addresses stands for a service at each. A job goes to the one at which the fewest
    wait, to another where it fails or hangs, and to a second where its answer is later than 99% of the last; its future
    raises SandboxError once none has answered for `PATIENCE` seconds. `submit` waits while many jobs are pending.
    Comparison with expected values happens here: they are never sent, except inside a dataset's own check.

    Raises SandboxUnavailable where no address answers, or one expects another token.
    """

    def __init__(
        self, addresses: Sequence[str], token: str = "", limits: Limits | None = None, connections: int | None = None
    ) -> None:
        self.limits = limits or Limits()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._replicas = Replicas(addresses, headers)
        self._hedging = Hedging()
        self._is_out = False
        count = connections or 16 * max(1, len(self._replicas))
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="remote-judge")
        self._room = threading.BoundedSemaphore(_PENDING * count)
        self._stopped = threading.Event()
        try:
            ready = [limit for limit in self._threads.map(_memory_limit, self._replicas) if limit]
            self.memory_limit = "; or ".join(dict.fromkeys(ready))
            if not ready:
                listed = ", ".join(addresses) or "any address"
                raise SandboxUnavailable(f"no judge answers at {listed}: start one with `codea1 sandbox serve`")
        except SandboxUnavailable:
            self.close()
            raise

    def submit(self, job: Request[R]) -> Future[R]:
        """Run one program and its calls, or a dataset's own check against one program. Raises OutsideLanguage."""
        assert isinstance(job, Job | CheckJob)
        if isinstance(job, Job) and job.task is not Task.STREAM:
            for call in job.calls:
                read_call(call, job.entry_point)
        self._room.acquire()
        future: Future[Any] = self._threads.submit(self._ask, job, job.limits or self.limits)
        future.add_done_callback(lambda _: self._room.release())
        return future

    def _ask(self, job: Job | CheckJob, limits: Limits) -> Execution | CheckResult:
        """A service's answer. Raises SandboxError."""
        fields = dataclasses.asdict(dataclasses.replace(job, limits=limits))
        if isinstance(job, CheckJob):
            return self._post("/check", fields, functools.partial(wire.read, CheckResult))
        return self._post("/execute", fields, functools.partial(_read_execution, len(job.calls)))

    def _post(self, path: str, fields: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> T:
        """What one of the services answers, as `read` reads it, which raises ValueError for what is not a result.

        Raises SandboxError, at once where two services (or the only one) refuse the job.
        """
        body, until = json.dumps(fields).encode(), time.monotonic() + PATIENCE
        refused: list[Replica] = []
        problem = "no address is known"
        while not self._stopped.is_set():
            if time.monotonic() >= until:
                raise SandboxError(f"no judge took the job in {PATIENCE:.0f} s; the last: {problem}")
            replica = self._replicas.choose(refused)
            if replica is not None:
                try:
                    with Race(self._replicas, self._hedging, path, body) as race:
                        result = race.run(replica, read, until)
                except Refused as error:
                    refused.append(error.replica)
                    address = error.replica.address
                    problem = f"{address}: {error.status} {error}"
                    if len(refused) >= min(2, len(self._replicas)):
                        raise SandboxError(f"{address} refuses the job ({error.status}): {error}") from error
                except Failed as error:
                    problem = str(error)
                else:
                    for each in refused:  # what another does
                        each.failed()
                    self._note(is_out=False)
                    return result
            else:
                self._note(is_out=True, problem=problem)
                self._stopped.wait(_PAUSE)
        raise SandboxError("the judge was stopped")

    def _note(self, is_out: bool, problem: str = "") -> None:
        """Log when the services stop answering, and when they answer again."""
        if is_out != self._is_out:
            self._is_out = is_out
            outage = f"no judge answers ({problem}); asking for up to {PATIENCE:.0f} s"
            logger.warning(outage if is_out else "the judge answers again")

    def close(self) -> None:
        """Finish what was submitted, and hang up."""
        self._threads.shutdown()
        self._replicas.close()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:  # nobody will read the results
            self._stopped.set()
        self.close()


def _read_execution(calls: int, answer: dict[str, Any]) -> Execution:
    """What became of that many calls. Raises ValueError."""
    execution = wire.read(Execution, answer)
    if len(execution.outcomes) != calls:
        raise ValueError(f"{len(execution.outcomes)} outcomes of {calls} calls")
    for outcome in execution.outcomes:  # else a verdict would be what no comparison has found
        if outcome.status in (Status.PASSED, Status.FAILED) or (outcome.value is None) == (
            outcome.status is Status.RETURNED
        ):
            raise ValueError(f"an outcome cannot be {outcome.status!r} with the value {outcome.value!r:.100}")
    return execution


def _memory_limit(replica: Replica) -> str:
    """That of the judge there; "" where none answers. Raises SandboxUnavailable where it would refuse our jobs."""
    try:
        health = as_object(replica.get("/health"))
    except (*FAILURES, ValueError):
        return ""
    if health.get("authorized") is False:
        raise SandboxUnavailable(
            f"the judge at {replica.address} expects another token: set {VARIABLE} to the one it was started with"
        )
    return str(health.get("memory_limit", "not known")) if health.get("status") in ("ok", "degraded") else ""
