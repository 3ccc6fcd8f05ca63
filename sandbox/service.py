"""The judge as an HTTP service, for hosts with too few cores: `codea1 sandbox serve`. Needs aiohttp.

POST /execute and /check take one job as JSON and answer its result; GET /health (which says whether the token sent is
the right one) and /metrics (Prometheus' text) need none. A request outside the language or of the wrong form is
answered 400, a failure of the judge 503. The service listens on loopback unless told otherwise, and refuses to listen
elsewhere without a token.
"""

import asyncio
import hmac
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from aiohttp import web

from sandbox import wire
from sandbox.bearer import VARIABLE
from sandbox.jobs import SandboxError, SandboxUnavailable
from sandbox.pool import SandboxPool

MAX_REQUEST = 64 << 20  # bytes
LOOPBACK = "127.0.0.1"

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def serve(
    pool: SandboxPool,
    host: str = LOOPBACK,
    port: int = 8787,
    token: str = "",
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until interrupted or terminated; `ready` is called once requests are taken.

    Raises SandboxUnavailable where the service would be open to others without a token, OSError where the address is
    not to be had.
    """
    if host not in (LOOPBACK, "localhost", "::1") and not token:
        raise SandboxUnavailable(
            f"listening on {host or 'every address'} needs a token, or all who reach it could run programs here: "
            f"set {VARIABLE} or give --token-file"
        )
    web.run_app(make_app(pool, token), host=host, port=port, print=lambda _: ready())


def make_app(pool: SandboxPool, token: str = "") -> web.Application:
    """The service around a pool. With a token, requests for work must carry ``Authorization: Bearer TOKEN``."""
    service = _Service(pool, token)

    @web.middleware
    async def only_authorized(request: web.Request, handler: _Handler) -> web.StreamResponse:
        if request.method == "POST" and not service.authorizes(request):
            raise web.HTTPUnauthorized(text="a bearer token is needed")
        return await handler(request)

    app = web.Application(middlewares=[only_authorized], client_max_size=MAX_REQUEST)
    app.router.add_post("/execute", service.execute)
    app.router.add_post("/check", service.check)
    app.router.add_get("/health", service.health)
    app.router.add_get("/metrics", service.metrics)
    return app


class _Service:
    def __init__(self, pool: SandboxPool, token: str) -> None:
        self._pool = pool
        self._token = token
        self._counts: Counter[str] = Counter()
        self._cpu_seconds = 0.0

    def authorizes(self, request: web.Request) -> bool:
        """Whether the request may ask for work."""
        sent = request.headers.get("Authorization", "")
        return not self._token or hmac.compare_digest(sent.encode(), f"Bearer {self._token}".encode())

    async def execute(self, request: web.Request) -> web.Response:
        return await self._answer(request, "execute", lambda fields: self._pool.submit(wire.job_from_json(fields)))

    async def check(self, request: web.Request) -> web.Response:
        return await self._answer(
            request, "check", lambda fields: self._pool.submit_check(wire.check_from_json(fields))
        )

    async def health(self, request: web.Request) -> web.Response:
        kept = {"backend": self._pool.backend, "workers": len(self._pool.worker_pids)}
        return web.json_response({"status": "ok", "authorized": self.authorizes(request), **kept})

    async def metrics(self, _request: web.Request) -> web.Response:
        lines = [f'sandbox_jobs_total{{kind="{kind}"}} {count}' for kind, count in sorted(self._counts.items())]
        lines += [f"sandbox_cpu_seconds_total {self._cpu_seconds}", f"sandbox_restarts_total {self._pool.restarts}"]
        return web.Response(text="\n".join(lines) + "\n")

    async def _answer(
        self, request: web.Request, kind: str, submit: Callable[[dict[str, Any]], Future[Any]]
    ) -> web.Response:
        try:
            fields = json.loads(await request.read())
            # Submitting may wait for room in the pool, so it must not hold up the other connections.
            future = await asyncio.get_running_loop().run_in_executor(None, submit, fields)
            result = await asyncio.wrap_future(future)
        except SandboxError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from error
        except (ValueError, TypeError, KeyError) as error:
            raise web.HTTPBadRequest(text=f"{type(error).__name__}: {error}") from error
        self._counts[kind] += 1
        self._cpu_seconds += result.cpu_seconds
        return web.json_response(wire.result_to_json(result))
