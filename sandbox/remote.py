"""A judge on other machines: the client of `sandbox.service`."""

import http.client
import itertools
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from sandbox import wire
from sandbox.jobs import CheckJob, CheckResult, Execution, Job, SandboxError, SandboxUnavailable
from sandbox.judge import Judge
from sandbox.language import read_call

T = TypeVar("T")

_PAUSE = 0.2  # seconds before the second attempt; doubled for each further one


class RemoteJudge(Judge):
    """Spreads jobs over the services at `addresses` (``http://host:port``), in turn.

    A job that an address cannot take is tried at the next, `attempts` times in all; then its future raises
    SandboxError. Comparison with expected values happens here: they are never sent, save inside a dataset's own check.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: str = "",
        connections: int = 16,
        attempts: int = 4,
        timeout: float = 300.0,
    ) -> None:
        """Raises SandboxUnavailable where no address answers; `timeout` in seconds is that of one attempt."""
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._timeout = timeout
        self._attempts = attempts
        self._addresses = [address.rstrip("/") for address in addresses]
        alive = [address for address in self._addresses if self._healthy(address)]
        if not alive:
            raise SandboxUnavailable(
                f"no judge answers at {', '.join(addresses) or 'any address'}: start one with `codea1 sandbox serve`"
            )
        self._turns = itertools.cycle(self._addresses)
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="remote-judge")

    def submit(self, job: Job) -> Future[Execution]:
        """Run one program and its calls."""
        for call in job.calls:
            read_call(call, job.entry_point)
        return self._threads.submit(self._ask, "/execute", wire.job_to_json(job), wire.execution_from_json)

    def submit_check(self, job: CheckJob) -> Future[CheckResult]:
        """Run a dataset's own check against one program."""
        return self._threads.submit(self._ask, "/check", wire.job_to_json(job), wire.check_result_from_json)

    def close(self) -> None:
        """Finish what was submitted."""
        self._threads.shutdown()

    def _ask(self, path: str, fields: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> T:
        body = json.dumps(fields).encode()
        problem = ""
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(_PAUSE * 2 ** (attempt - 1))
            address = next(self._turns)
            request = urllib.request.Request(address + path, body, self._headers)
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as response:
                    return read(json.load(response))
            except urllib.error.HTTPError as error:
                text = error.read().decode("utf-8", "replace")[:500]
                if error.code < 500:  # asking again would not help
                    raise SandboxError(f"{address} refuses the job ({error.code}): {text}") from error
                problem = f"{address}: {error.code} {text}"
            except (OSError, http.client.HTTPException) as error:
                problem = f"{address}: {error}"
            except (ValueError, TypeError, KeyError) as error:
                raise SandboxError(f"{address} answers what no judge answers: {error}") from error
        raise SandboxError(f"no judge took the job in {self._attempts} attempts; the last: {problem}")

    def _healthy(self, address: str) -> bool:
        try:
            with urllib.request.urlopen(address + "/health", timeout=10.0) as response:
                return json.load(response)["status"] == "ok"
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return False
