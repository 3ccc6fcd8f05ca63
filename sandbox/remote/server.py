"""The judge as an HTTP service, for hosts with too few cores: `codea1 sandbox serve`. Needs aiohttp.

POST /execute and /check take one job as JSON and answer its result, and /run_code speaks SandboxFusion's protocol; GET
/health, which reports whether the token is right, needs no token. The service listens on loopback by default, and
refuses to listen elsewhere without a token.

A request outside the language, of the wrong form or with limits beyond the service's own is answered 400, 408 or 413;
where too many requests wait 429 with Retry-After; a failure of the judge 503. No failure is ever answered like a
result. /health answers 503 unless all workers work.
"""

import asyncio
import dataclasses
import functools
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web

from sandbox.host.pool import SandboxPool
from sandbox.jobs import CheckJob, Job, Limits, Request, SandboxError, SandboxUnavailable, Task
from sandbox.remote import wire
from sandbox.remote.bearer import VARIABLE, authorizes
from sandbox.remote.http_service import listening, read_body, sent
from sandbox.remote.run_code import run_code

MAX_REQUEST = 64 << 20  # bytes
MAX_CALLS = 20_000  # of one job, each of which may be answered by kilobytes
MAX_CHARACTERS = 1 << 22  # of one job's calls, which are parsed here, unlike the inputs of streams
MAX_REQUESTS = 256 << 20  # bytes of all requests that are being answered
LOOPBACK = "127.0.0.1"
_AT_ONCE = 8  # jobs for each worker that are in the pool; the others wait for their turn

Steps = Generator[Request[Any], Any, dict[str, Any]]
"""A request's jobs, one after another, each answered by its result; at last the answer."""
Endpoint = Callable[[Any, Limits], Steps]
"""What is done with a request's JSON; it also gets the pool's limits. Raises ValueError for one of the wrong form."""


def _job_of(kind: type[Job | CheckJob], document: Any, _limits: Limits) -> Steps:
    result = yield wire.read(kind, document)
    return dataclasses.asdict(result)


ENDPOINTS: Mapping[str, Endpoint] = {
    "/execute": functools.partial(_job_of, Job),
    "/check": functools.partial(_job_of, CheckJob),
    "/run_code": run_code,
}


def most_limits(seconds: int = 600, memory_mb: int | None = None) -> Limits:
    memory_mb = memory_mb or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return Limits(wall_factor=20, memory_mb=memory_mb, processes=64, file_bytes=1 << 28).lasting(seconds)


def serve(
    pool: SandboxPool,
    host: str = LOOPBACK,
    port: int = 8787,
    token: str = "",
    ready: Callable[[], None] = lambda: None,
    endpoints: Mapping[str, Endpoint] = ENDPOINTS,
    most: Limits | None = None,
) -> None:
    """Serve until interrupted or terminated; `most` is what a request may ask for (None: `most_limits`).

    Raises SandboxUnavailable where the service would be open to others without a token, and OSError.
    """
    if host not in (LOOPBACK, "localhost", "::1") and not token:
        raise SandboxUnavailable(
            f"listening on {host or 'every address'} needs a token, or all who reach it could run programs here: "
            f"set {VARIABLE} or give --token-file"
        )

    async def until_stopped() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with listening(make_app(pool, token, endpoints, most), host, port):
            ready()
            await stop.wait()

    asyncio.run(until_stopped())


def make_app(
    pool: SandboxPool, token: str = "", endpoints: Mapping[str, Endpoint] = ENDPOINTS, most: Limits | None = None
) -> web.Application:
    """The service around a pool. With a token, requests for work must carry ``Authorization: Bearer TOKEN``."""
    service = _Service(pool, token, most or most_limits())
    app = web.Application(client_max_size=MAX_REQUEST)
    for path, endpoint in endpoints.items():
        app.router.add_post(path, functools.partial(service.judge, endpoint))
    app.router.add_get("/health", service.health)
    return app


class _Service:
    def __init__(self, pool: SandboxPool, token: str, most: Limits) -> None:
        self._pool = pool
        self._token = token
        self._most = most
        at_once = min(_AT_ONCE * pool.workers, (pool.pending + 1) // 2)  # so that submitting never waits
        self._turns = asyncio.Semaphore(at_once)
        self._waiting = 0  # for their turn
        self._sizes: list[int] = []  # bytes of the requests that are being answered
        self._reader = ThreadPoolExecutor(1, "read")  # one, so that jobs take their turns to be parsed: it takes memory

    def _authorizes(self, request: web.Request) -> bool:
        return authorizes(request.headers.get("Authorization", ""), self._token)

    async def health(self, request: web.Request) -> web.Response:
        workers, working = self._pool.workers, self._pool.working
        status = "ok" if working == workers else "degraded" if working else "down"
        health = {"status": status, "backend": self._pool.backend, "workers": workers, "working": working}
        health |= {"memory_limit": self._pool.memory_limit, "waiting": self._waiting + self._pool.waiting}
        health["authorized"] = self._authorizes(request)
        return web.json_response(health, status=200 if status == "ok" else 503)

    async def judge(self, endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        if not self._authorizes(request):
            raise web.HTTPUnauthorized(text="a bearer token is needed")
        with self._room_for(MAX_REQUEST if request.content_length is None else request.content_length):
            body = await read_body(request)
            answer = await self._answer(self._steps(endpoint, body))
            return await sent(request, web.Response(text=answer, content_type="application/json"))

    @contextmanager
    def _room_for(self, size: int) -> Iterator[None]:
        """While a request of that many bytes is answered. Raises HTTPTooManyRequests."""
        if len(self._sizes) >= self._pool.pending or sum(self._sizes) + size > MAX_REQUESTS:
            raise web.HTTPTooManyRequests(text="too many jobs wait here: come back later", headers={"Retry-After": "1"})
        self._sizes.append(size)
        try:
            yield
        finally:
            self._sizes.remove(size)

    async def _answer(self, steps: Steps) -> str:
        """Each of a request's jobs has a turn of its own. Raises HTTPServiceUnavailable and HTTPBadRequest."""
        try:
            job = await self._next(steps)
            while not isinstance(job, str):
                async with self._turn():
                    result = await asyncio.wrap_future(self._pool.submit(job))
                job = await self._next(steps, result)
            return job
        except SandboxError as error:
            raise web.HTTPServiceUnavailable(text=_one_line(error)) from error
        except (ValueError, RecursionError) as error:
            raise web.HTTPBadRequest(text=_one_line(error)) from error

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turns.release()

    async def _next(self, steps: Steps, result: Any = None) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._step, steps, result)

    def _step(self, steps: Steps, result: Any) -> Any:
        try:
            return self._allowed(steps.send(result))
        except StopIteration as end:
            return json.dumps(end.value)

    def _steps(self, endpoint: Endpoint, body: bytes) -> Steps:
        return (yield from endpoint(wire.parsed(body.decode()), self._pool.limits))

    def _allowed(self, job: Any) -> Any:
        if isinstance(job, Job) and len(job.calls) > MAX_CALLS:
            raise ValueError(f"a job has at most {MAX_CALLS} calls")
        if isinstance(job, Job) and job.task is not Task.STREAM and sum(map(len, job.calls)) > MAX_CHARACTERS:
            raise ValueError(f"the calls of a job have at most {MAX_CHARACTERS} characters")
        for name, value in vars(job.limits or self._pool.limits).items():
            if value > getattr(self._most, name):
                raise ValueError(f"limits.{name} can be at most {getattr(self._most, name)} here, not {value}")
        return job


def _one_line(error: Exception) -> str:
    """An error's text as a response's, whatever characters of a request it quotes."""
    return f"{type(error).__name__}: {error}"[:500].encode("ascii", "backslashreplace").decode()
