"""A judge whose work is done by a service on another host, `sandbox.remote.server`."""

import dataclasses
import functools
import http.client
import json
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

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

logger = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 300.0  # seconds of all attempts: the service may start again, or have too much to do
_FIRST_PAUSE = 0.1  # seconds before the second attempt; doubled with each
_MOST_PAUSE = 5.0
_HEALTH_SECONDS = 10.0
_PENDING = 64  # requests submitted and not answered, for each connection
_COME_BACK = (408, 429)  # of the refusals, those that ask for another try
_FAILURES = (OSError, http.client.HTTPException)


class RemoteJudge(Judge):
    """Asks the service at `address` (``http://host:port``), over that many `connections` (None: 16).

    A job whose answer does not come, or is not a result, is sent again after a pause, longer each time; its future
    raises SandboxError after `PATIENCE` seconds. `submit` waits while many jobs are pending. Comparison with expected
    values happens here: they are never sent, except inside a dataset's own check.

    Raises SandboxUnavailable where the service does not answer, or expects another token.
    """

    def __init__(
        self, address: str, token: str = "", limits: Limits | None = None, connections: int | None = None
    ) -> None:
        self.limits = limits or Limits()
        self._address = address
        self._url = _split(address)
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._is_out = False
        self._threads = ThreadPoolExecutor(connections or 16, thread_name_prefix="remote-judge")
        self._room = threading.BoundedSemaphore(_PENDING * (connections or 16))
        self._stopped = threading.Event()
        self.memory_limit = self._memory_limit()

    def submit(self, job: Request[R]) -> Future[R]:
        assert isinstance(job, Job | CheckJob)
        if isinstance(job, Job) and job.task is not Task.STREAM:
            for call in job.calls:
                read_call(call, job.entry_point)
        self._room.acquire()
        future: Future[Any] = self._threads.submit(self._ask, job, job.limits or self.limits)
        future.add_done_callback(lambda _: self._room.release())
        return future

    def _ask(self, job: Job | CheckJob, limits: Limits) -> Execution | CheckResult:
        fields = dataclasses.asdict(dataclasses.replace(job, limits=limits))
        if isinstance(job, CheckJob):
            return self._post("/check", fields, functools.partial(wire.read, CheckResult))
        return self._post("/execute", fields, functools.partial(_read_execution, len(job.calls)))

    def _post(self, path: str, fields: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> T:
        """The answer, as `read` reads it (or raises ValueError). Raises SandboxError, at once where it is a refusal."""
        body, until, pause = json.dumps(fields).encode(), time.monotonic() + PATIENCE, _FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                status, text = self._exchange("POST", path, body, max(0.1, until - time.monotonic()))
                if status == 200:
                    result = read(_as_object(text))
                    self._note(is_out=False)
                    return result
                problem = f"{status} {text[:500].decode(errors='replace')}"
            except _FAILURES as error:
                status, problem = 0, str(error) or type(error).__name__
            except (ValueError, RecursionError) as error:
                status, problem = 0, f"not the answer of a judge: {error}"
            if 400 <= status < 500 and status not in _COME_BACK:
                raise SandboxError(f"{self._address} refuses the job ({problem})")
            if time.monotonic() + pause >= until:
                raise SandboxError(f"{self._address} did not take the job in {PATIENCE:.0f} s; the last: {problem}")
            if status not in _COME_BACK and pause > 4 * _FIRST_PAUSE:
                self._note(is_out=True, problem=problem)
            self._stopped.wait(random.uniform(0.5, 1.0) * pause)  # or all come back at the same time
            pause = min(2 * pause, _MOST_PAUSE)
        raise SandboxError("the judge was stopped")

    def _exchange(self, method: str, path: str, body: bytes | None, seconds: float) -> tuple[int, bytes]:
        try:
            connection = self._idle.pop()
        except IndexError:
            secure = self._url.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            connection = kind(self._url.hostname or "", self._url.port)
        try:
            connection.timeout = seconds
            if connection.sock is not None:
                connection.sock.settimeout(seconds)
            connection.request(method, self._url.path.rstrip("/") + path, body, self._headers)
            response = connection.getresponse()
            answer = response.status, response.read()
        except BaseException:
            connection.close()
            self._hang_up()  # on the others as well: the service that they lead to may be gone
            raise
        self._idle.append(connection)
        return answer

    def _memory_limit(self) -> str:
        """That of the service. Raises SandboxUnavailable where it does not answer, or would refuse our jobs."""
        try:
            health = _as_object(self._exchange("GET", "/health", None, _HEALTH_SECONDS)[1])
        except (*_FAILURES, ValueError):
            health = {}
        if health.get("authorized") is False:
            raise SandboxUnavailable(
                f"the judge at {self._address} expects another token: set {VARIABLE} to the one it was started with"
            )
        if health.get("status") not in ("ok", "degraded"):
            raise SandboxUnavailable(
                f"no judge answers at {self._address}: start one with `codea1 sandbox serve` or `codea1-judge serve`"
            )
        return str(health.get("memory_limit", "not known"))

    def _note(self, is_out: bool, problem: str = "") -> None:
        if is_out != self._is_out:
            self._is_out = is_out
            outage = f"no judge answers at {self._address} ({problem}); asking for up to {PATIENCE:.0f} s"
            logger.warning(outage if is_out else "the judge answers again")

    def _hang_up(self) -> None:
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread took it
                return

    def close(self) -> None:
        self._threads.shutdown()
        self._hang_up()

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


def _as_object(body: bytes) -> dict[str, Any]:
    fields = json.loads(body)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    return fields


def _split(address: str) -> SplitResult:
    url = urlsplit(address)
    try:
        if url.scheme in ("http", "https") and url.hostname and url.port != 0:
            return url
    except ValueError:
        pass
    raise SandboxUnavailable(f"{address} is not the address of a judge: write http://host:port")
