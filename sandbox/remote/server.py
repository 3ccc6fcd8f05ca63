"""The judge as an HTTP service, for hosts with too few cores: `codea1 sandbox serve`. Needs aiohttp.

POST /execute and /check take one job as JSON and answer its result; GET /health (which reports whether the token is
right) and /metrics (Prometheus' text) need none. The service listens on loopback by default, and
refuses to listen elsewhere without a token.

A request outside the language, of the wrong form or with limits beyond the service's own is answered 400, 408, 411 or
413; a failure of the judge 503, with Retry-After where there are only too many jobs. /health answers 503 unless all
workers work.
"""

import asyncio
import dataclasses
import functools
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import web

from sandbox.host.pool import DESCRIPTORS, SandboxPool
from sandbox.jobs import CheckJob, Job, Limits, SandboxError, SandboxUnavailable
from sandbox.remote import wire
from sandbox.remote.arrivals import Arrivals, busy
from sandbox.remote.bearer import VARIABLE, authorizes
from sandbox.remote.connections import allot, held, listening, sent

MAX_REQUEST = 64 << 20  # bytes
MAX_CALLS = 20_000  # of one job, each of which may be answered by kilobytes
MAX_REQUESTS = 256 << 20  # bytes of all requests that are being answered
_MAX_PARTS = 1 << 20  # tens of bytes of memory each, and much time of the garbage collector's
LOOPBACK = "127.0.0.1"


def most_limits() -> Limits:
    """What a client may ask for: minutes, and the memory that this host has."""
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    seconds = {"call_seconds": 600, "load_seconds": 600, "program_seconds": 600}
    return Limits(**seconds, wall_factor=20, memory_mb=memory_mb, processes=64, file_bytes=1 << 28)


def serve(
    pool: SandboxPool,
    host: str = LOOPBACK,
    port: int = 8787,
    token: str = "",
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until interrupted or terminated; `ready` is called once it accepts requests.

    Raises SandboxUnavailable where the service would be open to others without a token, or has no descriptors for
    connections; OSError where the address is not available.
    """
    if host not in (LOOPBACK, "localhost", "::1") and not token:
        raise SandboxUnavailable(
            f"listening on {host or 'every address'} needs a token, or all who reach it could run programs here: "
            f"set {VARIABLE} or give --token-file"
        )
    most = allot(pool.workers * DESCRIPTORS)

    async def until_stopped() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with listening(make_app(pool, token), host, port, most):
            ready()
            await stop.wait()

    asyncio.run(until_stopped())


def make_app(pool: SandboxPool, token: str = "") -> web.Application:
    """The service around a pool. With a token, requests for work must carry ``Authorization: Bearer TOKEN``."""
    service = _Service(pool, token)
    app = web.Application()
    app.router.add_post("/execute", functools.partial(service.judge, Job))
    app.router.add_post("/check", functools.partial(service.judge, CheckJob))
    app.router.add_get("/health", service.health)
    app.router.add_get("/metrics", service.metrics)
    return app


class _Service:
    def __init__(self, pool: SandboxPool, token: str) -> None:
        self._pool = pool
        self._token = token
        self._most = most_limits()
        self._counts: Counter[str] = Counter()
        self._cpu_seconds = 0.0
        self._jobs = 0  # that are being answered
        self._arrivals = Arrivals(MAX_REQUESTS, MAX_REQUEST)
        self._reader = ThreadPoolExecutor(1, "read")  # one, so that jobs take their turns to be parsed: it takes memory

    def _authorizes(self, request: web.Request) -> bool:
        return authorizes(request.headers.get("Authorization", ""), self._token)

    async def health(self, request: web.Request) -> web.Response:
        workers, working = self._pool.workers, self._pool.working
        status = "ok" if working == workers else "degraded" if working else "down"
        health = {"status": status, "backend": self._pool.backend, "workers": workers, "working": working}
        health["authorized"] = self._authorizes(request)
        return web.json_response(health, status=200 if status == "ok" else 503)

    async def metrics(self, _request: web.Request) -> web.Response:
        lines = [f'sandbox_jobs_total{{kind="{kind}"}} {count}' for kind, count in sorted(self._counts.items())]
        lines += [f"sandbox_cpu_seconds_total {self._cpu_seconds}", f"sandbox_restarts_total {self._pool.restarts}"]
        lines += [f"sandbox_workers {self._pool.workers}", f"sandbox_workers_working {self._pool.working}"]
        return web.Response(text="\n".join(lines) + "\n")

    async def judge(self, kind: type[Job | CheckJob], request: web.Request) -> web.StreamResponse:
        if not self._authorizes(request):
            raise web.HTTPUnauthorized(text="a bearer token is needed")
        async with self._arrivals.body(request) as body:
            if self._jobs >= self._pool.pending:
                raise busy()
            self._jobs += 1
            try:
                with held(request):
                    job = await asyncio.get_running_loop().run_in_executor(self._reader, self._read, kind, body)
                    # There is room, since no more jobs are admitted than may be pending.
                    result = await asyncio.wrap_future(self._pool.submit(job))
                self._counts[request.path.removeprefix("/")] += 1
                self._cpu_seconds += result.cpu_seconds
                return await sent(request, web.json_response(dataclasses.asdict(result)))
            except SandboxError as error:
                raise web.HTTPServiceUnavailable(text=_one_line(error)) from error
            except (ValueError, RecursionError) as error:
                raise web.HTTPBadRequest(text=_one_line(error)) from error
            finally:
                self._jobs -= 1

    def _read(self, kind: type[Job | CheckJob], body: bytearray) -> Any:
        """A job. Raises ValueError or RecursionError for what is not JSON or not a job, or asks for too much."""
        text = body.decode()
        if text.count("[") + text.count("{") > _MAX_PARTS:
            raise ValueError(f"a job has at most {_MAX_PARTS} lists and objects, those in its texts included")
        job = wire.read(kind, json.loads(text))
        if isinstance(job, Job) and len(job.calls) > MAX_CALLS:
            raise ValueError(f"a job has at most {MAX_CALLS} calls")
        for name, value in vars(job.limits or self._pool.limits).items():
            if value > getattr(self._most, name):
                raise ValueError(f"limits.{name} can be at most {getattr(self._most, name)} here, not {value}")
        return job


def _one_line(error: Exception) -> str:
    """An error's text as a response's, whatever characters of a request it quotes."""
    return f"{type(error).__name__}: {error}"[:500].encode("ascii", "backslashreplace").decode()
