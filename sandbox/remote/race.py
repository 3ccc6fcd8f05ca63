"""One job and the replicas that it is sent to: one, and a second where that is late."""

import json
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

from sandbox.jobs import SandboxError
from sandbox.remote.hedging import Hedging
from sandbox.remote.replicas import FAILURES, STALL_SECONDS, Exchange, Replica, Replicas, wait_for

T = TypeVar("T")

_LOOK_SECONDS = 1.0  # between looks at the replicas of a late job
_COME_BACK = (408, 429)  # of the refusals, those that ask for another try


class Failed(SandboxError):
    """No replica answered with a result; another may."""


class Refused(Failed):
    """A replica does not take the job, and would not the next time."""

    def __init__(self, replica: Replica, status: int, text: str) -> None:
        super().__init__(text)
        self.replica, self.status = replica, status


class Race:
    """The attempts at one job, as a context manager: those that have not ended are given up when it exits."""

    def __init__(self, replicas: Replicas, hedging: Hedging, path: str, body: bytes) -> None:
        self._replicas, self._hedging = replicas, hedging
        self._path, self._body = path, body
        self._asked: list[Replica] = []
        self._waiting: list[Exchange] = []
        self._problem: Failed | None = None
        self._is_late = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for exchange in self._waiting:
            exchange.close()
        for replica in self._asked:
            self._replicas.release(replica)

    def run(self, first: Replica, read: Callable[[dict[str, Any]], T], until: float) -> T:
        """The first answer, read by `read`; raises Failed where none comes, for half an answer as well."""
        began, seconds = time.monotonic(), self._hedging.late
        self._send(first)
        while self._waiting and (left := until - time.monotonic()) > 0:
            come = wait_for(self._waiting, min(seconds, left))
            for exchange in [each for each in self._waiting if each.fileno() in come]:
                self._waiting.remove(exchange)
                try:
                    result = _result(exchange, read)
                except Failed as error:
                    self._problem = error
                    continue
                self._hedging.answered(time.monotonic() - began)
                if exchange.replica is not first and self._waiting:
                    first.failed()  # or the next jobs would wait there as well
                return result
            if not come and self._is_late:
                self._give_up_hanging()
            elif not come:
                self._hedge()
                self._is_late, seconds = True, _LOOK_SECONDS
        raise self._problem or Failed(f"{first.address}: no answer came in time")

    def _send(self, replica: Replica) -> None:
        self._asked.append(replica)
        try:
            self._waiting.append(replica.send(self._path, self._body))
        except FAILURES as error:
            replica.failed()
            self._problem = Failed(f"{replica.address}: {error}")

    def _hedge(self) -> None:
        """Ask a second one that works, if the job may be sent twice."""
        others = [each for each in self._replicas if each not in self._asked and not each.is_failing]
        if others and self._hedging.allows():
            another = self._replicas.choose([each for each in self._replicas if each not in others])
            if another is not None:
                self._send(another)

    def _give_up_hanging(self) -> None:
        """Where others work, those that do not answer whether they live, or no job for long."""
        for exchange in self._waiting[:] if len(self._replicas) > 1 else ():
            replica = exchange.replica
            is_hanging = replica.has_failed_for(2 * STALL_SECONDS) or not replica.is_alive()
            if is_hanging:
                replica.failed()
            if is_hanging and self._replicas.work:
                self._problem = Failed(f"{replica.address}: no answer, nor a sign of life in {STALL_SECONDS:.0f} s")
                self._waiting.remove(exchange)
                exchange.close()


def _result(exchange: Exchange, read: Callable[[dict[str, Any]], T]) -> T:
    """The result in an answer. Raises Failed."""
    replica = exchange.replica
    try:
        status, body = exchange.answer()
        if status == 200:
            result = read(as_object(body))
            replica.answered()
            return result
        problem = f"{status} {body[:500].decode(errors='replace')}"
        if 400 <= status < 500 and status not in _COME_BACK:
            raise Refused(replica, status, problem[4:])
    except FAILURES as error:
        problem = str(error) or type(error).__name__
    except (ValueError, RecursionError) as error:
        problem = f"not the answer of a judge: {error}"
    replica.failed()
    raise Failed(f"{replica.address}: {problem}")


def as_object(body: bytes) -> dict[str, Any]:
    """A JSON object. Raises ValueError."""
    fields = json.loads(body)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    return fields
