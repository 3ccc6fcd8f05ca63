"""Judges whose work is done by HTTP services, and the one that asks `sandbox.remote.server`."""

import dataclasses
import itertools
import json
import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx2

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
    Task,
)
from sandbox.judge import Judge
from sandbox.language import read_call
from sandbox.remote import wire
from sandbox.remote.bearer import VARIABLE

logger = logging.getLogger(__name__)

PATIENCE = 300.0  # seconds of one attempt, and of all attempts: a service may start again, or have too much to do
_PAUSE = 0.2  # seconds before the second attempt; doubled for some of the further ones
_BUSY = 429  # the service asks to come back later
_PENDING = 64  # requests submitted and not answered, for each connection


class ServiceJudge(Judge):
    """Asks the services at `addresses` (``http://host:port``) in turn, over as many `connections` (None: 16).

    A job goes to the next service where one fails; its future raises SandboxError once every service has been asked and
    none has answered for `PATIENCE` seconds. `submit` waits while many jobs are pending.
    """

    def __init__(
        self, addresses: Sequence[str], token: str = "", limits: Limits | None = None, connections: int | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.addresses = [address.rstrip("/") for address in addresses]
        count = connections or 16
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        kept = httpx2.Limits(max_connections=count, max_keepalive_connections=count)
        self._client = httpx2.Client(headers=headers, timeout=PATIENCE, limits=kept, trust_env=False)
        self._turns = itertools.cycle(self.addresses)
        self._is_out = False
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="remote-judge")
        self._room = threading.BoundedSemaphore(_PENDING * count)
        self._stopped = threading.Event()

    @abstractmethod
    def ask(self, job: Job | CheckJob, limits: Limits) -> Any:
        """What the services answer to a job."""

    def submit(self, job: Request[R]) -> Future[R]:
        """Run one program and its calls, or a dataset's own check against one program."""
        assert isinstance(job, Job | CheckJob)
        self._room.acquire()
        future: Future[Any] = self._threads.submit(self.ask, job, job.limits or self.limits)
        future.add_done_callback(lambda _: self._room.release())
        return future

    def post(self, path: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The JSON object that one of the services answers. Raises SandboxError."""
        body, until = json.dumps(fields).encode(), time.monotonic() + PATIENCE
        for failures in itertools.count():
            if self._stopped.wait(_PAUSE * 2 ** min(failures - 1, 3) if failures else 0.0):
                break
            address = next(self._turns)
            try:
                response = self._client.post(address + path, content=body)
            except httpx2.TransportError as error:
                problem = f"{address}: {error}"
            else:
                if response.status_code == 200:
                    self._note(is_out=False)
                    return _object(address, response)
                text = response.text[:500]
                if response.status_code < 500 and response.status_code != _BUSY:  # asking again would not help
                    raise SandboxError(f"{address} refuses the job ({response.status_code}): {text}")
                problem = f"{address}: {response.status_code} {text}"
            if failures >= len(self.addresses) - 1:
                if time.monotonic() >= until:
                    raise SandboxError(f"no judge took the job in {PATIENCE:.0f} s; the last: {problem}")
                self._note(is_out=True, problem=problem)
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
        self._client.close()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:  # nobody will read the results
            self._stopped.set()
        self.close()


class RemoteJudge(ServiceJudge):
    """Judges at hosts that run `codea1 sandbox serve`.

    Comparison with expected values happens here: they are never sent, except inside a dataset's own check. Raises
    SandboxUnavailable where no address answers, or one expects another token.
    """

    def __init__(
        self, addresses: Sequence[str], token: str = "", limits: Limits | None = None, connections: int | None = None
    ) -> None:
        super().__init__(addresses, token, limits, connections)
        try:
            if not any([self._is_ready(address) for address in self.addresses]):
                listed = ", ".join(addresses) or "any address"
                raise SandboxUnavailable(f"no judge answers at {listed}: start one with `codea1 sandbox serve`")
        except SandboxUnavailable:
            self.close()
            raise

    def submit(self, job: Request[Any]) -> Future[Any]:
        """Run a job. Raises OutsideLanguage."""
        if isinstance(job, Job) and job.task is not Task.STREAM:
            for call in job.calls:
                read_call(call, job.entry_point)
        return super().submit(job)

    def ask(self, job: Job | CheckJob, limits: Limits) -> Any:
        """A judge's answer. Raises SandboxError."""
        path, kind = ("/execute", Execution) if isinstance(job, Job) else ("/check", CheckResult)
        answer = self.post(path, dataclasses.asdict(dataclasses.replace(job, limits=limits)))
        try:
            return wire.read(kind, answer)
        except ValueError as error:
            raise SandboxError(f"not the answer of a judge: {error}") from error

    def _is_ready(self, address: str) -> bool:
        """Whether a judge answers there. Raises SandboxUnavailable where it would refuse our jobs."""
        try:
            health = _object(address, self._client.get(f"{address}/health"))
        except (httpx2.TransportError, SandboxError):
            return False
        if health.get("authorized") is False:
            raise SandboxUnavailable(
                f"the judge at {address} expects another token: set {VARIABLE} to the one it was started with"
            )
        return health.get("status") in ("ok", "degraded")


def _object(address: str, response: httpx2.Response) -> dict[str, Any]:
    """A JSON object. Raises SandboxError."""
    try:
        fields = json.loads(response.content)
    except ValueError as error:
        raise SandboxError(f"{address} does not answer with JSON: {error}") from error
    if not isinstance(fields, dict):
        raise SandboxError(f"{address} does not answer with a JSON object")
    return fields
