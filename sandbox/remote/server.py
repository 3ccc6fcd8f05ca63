"""The judge as an HTTP service, for hosts with too few cores: `codea1 sandbox serve`. Needs aiohttp.

POST /execute and /check take one job as JSON and answer its result, and /run_code speaks SandboxFusion's protocol; GET
/health (which reports whether the token is right), /metrics (Prometheus' text) and /openapi.json need no token. The
service listens on loopback by default, and refuses to listen elsewhere without a token.

A request outside the language, of the wrong form or with limits beyond the service's own is answered 400, 408, 411 or
413; where too many jobs wait 429 with Retry-After; a failure of the judge 503. No failure is ever answered like a
result. /health answers 503 unless all workers work.
"""

import asyncio
import dataclasses
import functools
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from aiohttp import web

from sandbox.host.pool import DESCRIPTORS, SandboxPool
from sandbox.jobs import CheckJob, Job, Limits, Request, SandboxError, SandboxUnavailable
from sandbox.remote import wire
from sandbox.remote.arrivals import Arrivals
from sandbox.remote.bearer import VARIABLE, authorizes
from sandbox.remote.connections import MOST, allot, held, listening, sent
from sandbox.remote.run_code import run_code
from sandbox.remote.turns import Turns

MAX_REQUEST = 64 << 20  # bytes
MAX_CALLS = 20_000  # of one job, each of which may be answered by kilobytes
MAX_REQUESTS = 256 << 20  # bytes of all requests that are being answered
LOOPBACK = "127.0.0.1"
_AT_ONCE = 8  # jobs for each worker that are in the pool; the others wait for their client's turn
_DOCUMENT = Path(__file__).with_name("openapi.json")

Steps = Generator[Request[Any], Any, dict[str, Any]]
"""A request's jobs, one after another, each answered by its result; at last the answer."""
Endpoint = Callable[[Any, Limits], Steps]
"""What is done with a request's JSON; it also gets the pool's limits. Raises ValueError for one of the wrong form."""


def _job_of(kind: type[Job | CheckJob], document: Any, _limits: Limits) -> Steps:
    """One job, and its result as it is."""
    result = yield wire.read(kind, document)
    return dataclasses.asdict(result)


ENDPOINTS: Mapping[str, Endpoint] = {
    "/execute": functools.partial(_job_of, Job),
    "/check": functools.partial(_job_of, CheckJob),
    "/run_code": run_code,
}


def most_limits(seconds: int = 600, memory_mb: int | None = None) -> Limits:
    """What a client may ask for: these seconds, and this memory, or what this host has."""
    memory_mb = memory_mb or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    each = dict.fromkeys(("call_seconds", "load_seconds", "program_seconds"), seconds)
    return Limits(**each, wall_factor=20, memory_mb=memory_mb, processes=64, file_bytes=1 << 28)


def serve(
    pool: SandboxPool,
    host: str = LOOPBACK,
    port: int = 8787,
    token: str = "",
    ready: Callable[[], None] = lambda: None,
    endpoints: Mapping[str, Endpoint] = ENDPOINTS,
    most: Limits | None = None,
) -> None:
    """Serve until interrupted or terminated; `ready` is called once it accepts requests.

    `most` is what a request may ask for; None: `most_limits`.

    Raises SandboxUnavailable where the service would be open to others without a token, or has no descriptors for
    connections; OSError where the address is not available.
    """
    if host not in (LOOPBACK, "localhost", "::1") and not token:
        raise SandboxUnavailable(
            f"listening on {host or 'every address'} needs a token, or all who reach it could run programs here: "
            f"set {VARIABLE} or give --token-file"
        )
    places = allot(pool.workers * DESCRIPTORS)

    async def until_stopped() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with listening(make_app(pool, token, endpoints, most, places), host, port, places):
            ready()
            await stop.wait()

    asyncio.run(until_stopped())


def make_app(
    pool: SandboxPool,
    token: str = "",
    endpoints: Mapping[str, Endpoint] = ENDPOINTS,
    most: Limits | None = None,
    places: int = MOST,
) -> web.Application:
    """The service around a pool, over as many connections as there are `places`.

    With a token, requests for work must carry ``Authorization: Bearer TOKEN``.
    """
    service = _Service(pool, token, most or most_limits(), places)
    app = web.Application()
    for path, endpoint in endpoints.items():
        app.router.add_post(path, functools.partial(service.judge, endpoint))
    app.router.add_get("/health", service.health)
    app.router.add_get("/metrics", service.metrics)
    document = json.loads(_DOCUMENT.read_text())
    document["paths"] = {path: each for path, each in document["paths"].items() if path in endpoints or "get" in each}
    app.router.add_get("/openapi.json", functools.partial(_answer, document))
    return app


async def _answer(document: dict[str, Any], _request: web.Request) -> web.Response:
    return web.json_response(document)


class _Service:
    def __init__(self, pool: SandboxPool, token: str, most: Limits, places: int) -> None:
        self._pool = pool
        self._token = token
        self._most = most
        self._counts: Counter[str] = Counter()
        self._cpu_seconds = 0.0
        jobs = min(pool.pending, max(1, places // 2))  # so that submitting never waits, and newcomers find a place
        at_once = min(_AT_ONCE * pool.workers, (jobs + 1) // 2)
        self._turns = Turns(at_once, jobs - at_once)
        self._reading = Turns(1, jobs)
        self._arrivals = Arrivals(MAX_REQUESTS, MAX_REQUEST)
        self._reader = ThreadPoolExecutor(1, "read")  # one, so that jobs take their turns to be parsed: it takes memory

    def _authorizes(self, request: web.Request) -> bool:
        return authorizes(request.headers.get("Authorization", ""), self._token)

    async def health(self, request: web.Request) -> web.Response:
        workers, working = self._pool.workers, self._pool.working
        status = "ok" if working == workers else "degraded" if working else "down"
        health = {"status": status, "backend": self._pool.backend, "workers": workers, "working": working}
        health["memory_limit"] = self._pool.memory_limit
        health["authorized"] = self._authorizes(request)
        return web.json_response(health, status=200 if status == "ok" else 503)

    async def metrics(self, _request: web.Request) -> web.Response:
        lines = [f'sandbox_jobs_total{{kind="{kind}"}} {count}' for kind, count in sorted(self._counts.items())]
        lines += [f"sandbox_cpu_seconds_total {self._cpu_seconds}", f"sandbox_restarts_total {self._pool.restarts}"]
        waiting = self._turns.waiting + self._pool.waiting
        lines += [f"sandbox_jobs_waiting {waiting}", f"sandbox_workers {self._pool.workers}"]
        lines += [f"sandbox_workers_working {self._pool.working}"]
        return web.Response(text="\n".join(lines) + "\n")

    async def judge(self, endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        if not self._authorizes(request):
            raise web.HTTPUnauthorized(text="a bearer token is needed")
        async with self._arrivals.body(request) as body:
            with held(request):
                answer = await self._answer(self._steps(endpoint, body), request.remote or "")
            self._counts[request.path.removeprefix("/")] += 1
            return await sent(request, web.Response(text=answer, content_type="application/json"))

    async def _answer(self, steps: Steps, client: str) -> str:
        """Do what a request asks for, each of its jobs in another turn.

        Raises HTTPServiceUnavailable, HTTPBadRequest and HTTPTooManyRequests.
        """
        job = None
        try:
            while not isinstance(job, str):
                async with self._turns.turn(client):
                    job = job or await self._next(steps, client)
                    result = await asyncio.wrap_future(self._pool.submit(job))
                    self._cpu_seconds += result.cpu_seconds
                    job = await self._next(steps, client, result)
            return job
        except SandboxError as error:
            raise web.HTTPServiceUnavailable(text=_one_line(error)) from error
        except (ValueError, RecursionError) as error:
            raise web.HTTPBadRequest(text=_one_line(error)) from error

    async def _next(self, steps: Steps, client: str, result: Any = None) -> Any:
        """A request's next job, or the text of its answer. Clients take turns here as well: texts may be long."""
        async with self._reading.turn(client):
            return await asyncio.get_running_loop().run_in_executor(self._reader, self._step, steps, result)

    def _step(self, steps: Steps, result: Any) -> Any:
        try:
            return self._allowed(steps.send(result))
        except StopIteration as end:
            return json.dumps(end.value)

    def _steps(self, endpoint: Endpoint, body: bytearray) -> Steps:
        """Raises ValueError or RecursionError for what is not JSON or not a job."""
        return (yield from endpoint(wire.parsed(body.decode()), self._pool.limits))

    def _allowed(self, job: Any) -> Any:
        """The job. Raises ValueError if it may use more than the service allows."""
        if isinstance(job, Job) and len(job.calls) > MAX_CALLS:
            raise ValueError(f"a job has at most {MAX_CALLS} calls")
        for name, value in vars(job.limits or self._pool.limits).items():
            if value > getattr(self._most, name):
                raise ValueError(f"limits.{name} can be at most {getattr(self._most, name)} here, not {value}")
        return job


def _one_line(error: Exception) -> str:
    """An error's text as a response's, whatever characters of a request it quotes."""
    return f"{type(error).__name__}: {error}"[:500].encode("ascii", "backslashreplace").decode()
