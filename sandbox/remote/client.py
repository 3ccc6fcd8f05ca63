"""A judge on other machines: the client of `sandbox.remote.server`."""

import dataclasses
import http.client
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from sandbox.jobs import CheckJob, CheckResult, Execution, Job, Limits, SandboxError, SandboxUnavailable
from sandbox.language import read_call
from sandbox.remote import wire
from sandbox.remote.bearer import VARIABLE
from sandbox.remote.services import ServiceJudge, Services, read_object

T = TypeVar("T")


class RemoteJudge(ServiceJudge):
    """Spreads jobs over the services at `addresses` (``http://host:port``); `submit` waits while many are pending.

    A job that none of them has taken after `patience` seconds makes its future raise SandboxError. Comparison with
    expected values happens here: they are never sent, except inside a dataset's own check.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: str = "",
        limits: Limits | None = None,
        connections: int | None = None,
        patience: float | None = None,
    ) -> None:
        """Raises SandboxUnavailable where no address answers, or one expects another token."""
        super().__init__(Services(addresses, token, connections, patience))
        self.limits = limits or Limits()
        try:
            if not any([self._is_ready(address) for address in self._services.addresses]):
                listed = ", ".join(addresses) or "any address"
                raise SandboxUnavailable(f"no judge answers at {listed}: start one with `codea1 sandbox serve`")
        except SandboxUnavailable:
            self._services.close()
            raise

    def submit(self, job: Job) -> Future[Execution]:
        """Run one program and its calls."""
        for call in job.calls:
            read_call(call, job.entry_point)
        return self._services.submit(self._ask, "/execute", job, wire.execution_from_json)

    def submit_check(self, job: CheckJob) -> Future[CheckResult]:
        """Run a dataset's own check against one program."""
        return self._services.submit(self._ask, "/check", job, wire.check_result_from_json)

    def _ask(self, path: str, job: Job | CheckJob, read: Callable[[dict[str, Any]], T]) -> T:
        limited = dataclasses.replace(job, limits=job.limits or self.limits)
        answer = self._services.post(path, wire.job_to_json(limited))
        try:
            return read(answer)
        except (ValueError, TypeError, KeyError) as error:
            raise SandboxError(f"not the answer of a judge: {error}") from error

    def _is_ready(self, address: str) -> bool:
        """Whether a judge answers there. Raises SandboxUnavailable where it would refuse our jobs."""
        try:
            health = read_object(address, self._services.exchange(address, "GET", "/health").data)
        except (OSError, http.client.HTTPException, SandboxError):
            return False
        if health.get("authorized") is False:
            raise SandboxUnavailable(
                f"the judge at {address} expects another token: set {VARIABLE} to the one it was started with"
            )
        return health.get("status") in ("ok", "degraded")
