"""A judge on other machines: the client of `sandbox.service`."""

import dataclasses
import http.client
import itertools
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from sandbox import wire
from sandbox.jobs import CheckJob, CheckResult, Execution, Job, Limits, SandboxError, SandboxUnavailable
from sandbox.judge import Judge
from sandbox.language import read_call

T = TypeVar("T")

_PAUSE = 0.2  # seconds before the second attempt; doubled for each further one


class Services:
    """HTTP services that do the same work: requests go to them in turn, and to the next where one fails."""

    def __init__(
        self,
        addresses: Sequence[str],
        token: str = "",
        connections: int | None = None,
        attempts: int = 4,
        timeout: float = 300.0,
    ) -> None:
        """`connections` at once (None: 16); `attempts` for each request in all; `timeout` of one attempt in seconds."""
        self.addresses = [address.rstrip("/") for address in addresses]
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._attempts = attempts
        self._timeout = timeout
        self._turns = itertools.cycle(self.addresses)
        self._threads = ThreadPoolExecutor(connections or 16, thread_name_prefix="remote-judge")
        self._stopped = threading.Event()

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """Call `function` in a thread, as many at once as there are connections."""
        return self._threads.submit(function, *args)

    def post(self, path: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The JSON object that one of the services answers. Raises SandboxError."""
        body = json.dumps(fields).encode()
        problem = ""
        for attempt in range(self._attempts):
            if self._stopped.wait(_PAUSE * 2 ** (attempt - 1) if attempt else 0):
                raise SandboxError("the judge was stopped")
            address = next(self._turns)
            request = urllib.request.Request(address + path, body, self._headers)
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                text = error.read().decode("utf-8", "replace")[:500]
                if error.code < 500:  # asking again would not help
                    raise SandboxError(f"{address} refuses the job ({error.code}): {text}") from error
                problem = f"{address}: {error.code} {text}"
            except (OSError, http.client.HTTPException) as error:
                problem = f"{address}: {error}"
            except ValueError as error:
                raise SandboxError(f"{address} answers something else than JSON: {error}") from error
        raise SandboxError(f"no judge took the job in {self._attempts} attempts; the last: {problem}")

    def stop(self) -> None:
        """Send no further request: what was submitted fails, save what is already being answered."""
        self._stopped.set()

    def close(self) -> None:
        """Finish what was submitted."""
        self._threads.shutdown()


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


class RemoteJudge(ServiceJudge):
    """Spreads jobs over the services at `addresses` (``http://host:port``).

    A job that none of them takes makes its future raise SandboxError. Comparison with expected values happens here:
    they are never sent, save inside a dataset's own check.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: str = "",
        limits: Limits | None = None,
        connections: int | None = None,
        attempts: int = 4,
    ) -> None:
        """`limits` are those of jobs that name none (None: the service's). Raises SandboxUnavailable where no address
        answers.
        """
        super().__init__(Services(addresses, token, connections, attempts))
        self._limits = limits
        if not any(_healthy(address) for address in self._services.addresses):
            self._services.close()
            raise SandboxUnavailable(
                f"no judge answers at {', '.join(addresses) or 'any address'}: start one with `codea1 sandbox serve`"
            )

    def submit(self, job: Job) -> Future[Execution]:
        """Run one program and its calls."""
        for call in job.calls:
            read_call(call, job.entry_point)
        return self._services.submit(self._ask, "/execute", job, wire.execution_from_json)

    def submit_check(self, job: CheckJob) -> Future[CheckResult]:
        """Run a dataset's own check against one program."""
        return self._services.submit(self._ask, "/check", job, wire.check_result_from_json)

    def _ask(self, path: str, job: Job | CheckJob, read: Callable[[dict[str, Any]], T]) -> T:
        limited = dataclasses.replace(job, limits=job.limits or self._limits)
        answer = self._services.post(path, wire.job_to_json(limited))
        try:
            return read(answer)
        except (ValueError, TypeError, KeyError) as error:
            raise SandboxError(f"an answer that no judge gives: {error}") from error


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(address + "/health", timeout=10.0) as response:
            return json.load(response)["status"] == "ok"
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
