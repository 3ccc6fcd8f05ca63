"""HTTP services that do the same work, and judges whose work they do."""

import contextlib
import http.client
import itertools
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sandbox.jobs import SandboxError
from sandbox.judge import Judge

T = TypeVar("T")

logger = logging.getLogger(__name__)

PATIENCE = 120.0  # seconds that a service may take to start again
_PAUSE = 0.2  # seconds before the second attempt; doubled for each further one
_LONGEST_OWN_PAUSE = 5.0
_LONGEST_PAUSE = 30.0  # that a service can ask for
_TIMEOUT = 300.0  # seconds of one attempt, and of all attempts at services that have too much to do
_PENDING = 64  # requests submitted and not answered, for each connection


@dataclass(frozen=True)
class Answer:
    """A service's answer; `retry_after` are the seconds after which a service that is too busy can be asked again."""

    status: int
    data: bytes
    retry_after: float | None = None


class Services:
    """Requests go to the services in turn, and to the next where one fails, over connections that are kept."""

    def __init__(
        self, addresses: Sequence[str], token: str = "", connections: int | None = None, patience: float | None = None
    ) -> None:
        """`connections` at once (None: 16). A request fails once every service has been asked and none has answered it
        for `patience` seconds (None: 120)."""
        self.addresses = [address.rstrip("/") for address in addresses]
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._patience = PATIENCE if patience is None else patience
        self._is_out = False
        self._turns = itertools.cycle(self.addresses)
        self._idle: dict[str, deque[http.client.HTTPConnection]] = {address: deque() for address in self.addresses}
        count = connections or 16
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="remote-judge")
        self._room = threading.BoundedSemaphore(_PENDING * count)
        self._stopped = threading.Event()

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """Call `function` in a thread, as many at once as there are connections; waits while too many are pending."""
        self._room.acquire()
        future = self._threads.submit(function, *args)
        future.add_done_callback(lambda _: self._room.release())
        return future

    def post(self, path: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The JSON object that one of the services answers. Raises SandboxError."""
        body = json.dumps(fields).encode()
        busy_until = time.monotonic() + _TIMEOUT
        fails_at = time.monotonic() + self._patience
        failures, pause = 0, 0.0
        while True:
            if self._stopped.wait(pause):
                raise SandboxError("the judge was stopped")
            address = next(self._turns)
            try:
                answer = self.exchange(address, "POST", path, body)
            except (OSError, http.client.HTTPException) as error:
                problem = f"{address}: {error}"
            else:
                if answer.status == 200:
                    self._note_answer()
                    return read_object(address, answer.data)
                text = answer.data[:500].decode("utf-8", "replace")
                if answer.retry_after is not None and time.monotonic() < busy_until:  # it works, and has too much to do
                    fails_at, pause = time.monotonic() + self._patience, answer.retry_after
                    continue
                if answer.status < 500:  # asking again would not help
                    raise SandboxError(f"{address} refuses the job ({answer.status}): {text}")
                problem = f"{address}: {answer.status} {text}"
            failures += 1
            if failures > len(self.addresses) and time.monotonic() >= fails_at:
                raise SandboxError(f"no judge took the job in {self._patience:.0f} s; the last: {problem}")
            if failures == len(self.addresses):
                self._note_outage(problem)
            pause = min(_PAUSE * 2 ** (failures - 1), _LONGEST_OWN_PAUSE)

    def _note_outage(self, problem: str) -> None:
        if not self._is_out:
            self._is_out = True
            logger.warning("no judge answers (%s); asking for up to %.0f s", problem, self._patience)

    def _note_answer(self) -> None:
        if self._is_out:
            self._is_out = False
            logger.warning("the judge answers again")

    def exchange(self, address: str, method: str, path: str, body: bytes = b"") -> Answer:
        """One request to one service, and its answer. Raises OSError or HTTPException."""
        request = method, urlsplit(address).path + path, body, self._headers
        with contextlib.suppress(IndexError, ConnectionError):
            return self._ask(address, self._idle[address].pop(), request)
        self._hang_up(address)  # on those that are as old as the one that the service has closed, if any
        return self._ask(address, _connection(address), request)

    def _ask(self, address: str, connection: http.client.HTTPConnection, request: tuple) -> Answer:
        try:
            connection.request(*request)
            response = connection.getresponse()
            again = response.getheader("Retry-After", "") if response.status == 503 else ""
            answer = Answer(
                response.status, response.read(), min(float(again), _LONGEST_PAUSE) if again.isdigit() else None
            )
        except BaseException:
            connection.close()
            raise
        self._idle[address].append(connection)
        return answer

    def _hang_up(self, address: str) -> None:
        """Close the idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle[address].pop().close()

    def stop(self) -> None:
        """Send no further request: what was submitted fails, save what is already being answered."""
        self._stopped.set()

    def close(self) -> None:
        """Finish what was submitted, and hang up."""
        self._threads.shutdown()
        for address in self.addresses:
            self._hang_up(address)


def _connection(address: str) -> http.client.HTTPConnection:
    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.netloc, timeout=_TIMEOUT)


def read_object(address: str, data: bytes) -> dict[str, Any]:
    """A JSON object. Raises SandboxError."""
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise SandboxError(f"{address} does not answer with JSON: {error}") from error
    if not isinstance(fields, dict):
        raise SandboxError(f"{address} does not answer with a JSON object")
    return fields


class ServiceJudge(Judge):
    """A judge whose work is done by services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def close(self) -> None:
        """Finish what was submitted."""
        self._services.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # nobody will read the results
            self._services.stop()
        self.close()
