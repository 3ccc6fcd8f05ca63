"""The HTTP service: OpenAI's /v1/models, /v1/completions and /v1/chat/completions, /health (/healthz) and /metrics.

With a token, requests under /v1 must carry ``Authorization: Bearer TOKEN``.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.serve.driver import Driver, EngineFailure
from codea1_jax.serve.jobs import Channel
from codea1_jax.serve.metrics import Metrics
from codea1_jax.serve.openai_answers import Answer, error_body
from codea1_jax.serve.openai_requests import ChatRequest, CompletionRequest, orders_of, parse
from codea1_jax.serve.orders import BadRequest, Busy

MAX_REQUEST = 16 << 20  # bytes

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Served:
    """What the service is about: the model's name to clients, its tokenizer, and the driver that runs it."""

    name: str
    tokenizer: Tokenizer
    driver: Driver
    slots: int


def make_app(served: Served, token: str) -> web.Application:
    """The service."""
    service = _Service(served)

    @web.middleware
    async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
        started = time.perf_counter()
        response = await _answered(request, handler, token)
        resource = request.match_info.route.resource  # which has one path for all names of models
        path = "other" if resource is None else resource.canonical
        service.metrics.requests.labels(path, response.status).inc()
        service.metrics.seconds.labels(path).observe(time.perf_counter() - started)
        return response

    app = web.Application(middlewares=[guarded], client_max_size=MAX_REQUEST)
    app.router.add_get("/health", service.health)  # as vLLM and SGLang call it
    app.router.add_get("/healthz", service.health)
    app.router.add_get("/metrics", service.show_metrics)
    app.router.add_get("/v1/models", service.models)
    app.router.add_get("/v1/models/{name}", service.model)
    app.router.add_post("/v1/completions", service.completions)
    app.router.add_post("/v1/chat/completions", service.chat)
    return app


async def _answered(request: web.Request, handler: _Handler, token: str) -> web.StreamResponse:
    """The handler's response, or the error's."""
    sent = request.headers.get("Authorization", "")
    if token and request.path.startswith("/v1/") and not hmac.compare_digest(sent.encode(), f"Bearer {token}".encode()):
        return _error(401, "a bearer token is needed", "authentication_error", "invalid_api_key")
    try:
        return await handler(request)
    except BadRequest as error:
        return _error(400, str(error), "invalid_request_error", param=error.param)
    except Busy as error:
        return _error(429, str(error), "rate_limit_error")
    except EngineFailure as error:
        return _error(500, str(error), "server_error")
    except web.HTTPException as error:  # no such path or method, or a body that is too large
        return _error(error.status, error.reason, "invalid_request_error")


def _error(status: int, message: str, kind: str, code: str | None = None, param: str | None = None) -> web.Response:
    return web.json_response(error_body(message, kind, code, param), status=status)


class _Service:
    def __init__(self, served: Served) -> None:
        self._served = served
        self._started = int(time.time())
        self.metrics = Metrics(served.driver, served.slots)

    async def health(self, _request: web.Request) -> web.Response:
        live = self._served.driver.live
        return web.json_response({"status": "ok" if live else "stopping"}, status=200 if live else 503)

    async def show_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self.metrics.text(), content_type="text/plain", charset="utf-8")

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [self._card()]})

    async def model(self, request: web.Request) -> web.Response:
        asked = request.match_info["name"]
        return web.json_response(self._card()) if asked == self._served.name else self._no_model(asked)

    def _card(self) -> dict[str, Any]:
        """The model as OpenAI's and vLLM's clients read it."""
        limits = self._served.driver.limits
        return {
            "id": self._served.name,
            "object": "model",
            "created": self._started,
            "owned_by": "codea1",
            "root": self._served.name,
            "parent": None,
            "max_model_len": limits.prompt + limits.response,
        }

    def _no_model(self, asked: str) -> web.Response:
        message = f"there is no model {asked!r} here, only {self._served.name!r}"
        return _error(404, message, "invalid_request_error", "model_not_found")

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, parse(CompletionRequest, await _json(request)))

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, parse(ChatRequest, await _json(request)))

    async def _generate(self, request: web.Request, asked: CompletionRequest | ChatRequest) -> web.StreamResponse:
        served = self._served
        if asked.model != served.name:
            return self._no_model(asked.model)
        prompts = asked.prompts(served.tokenizer)
        channel = served.driver.submit(orders_of(asked, prompts, served.driver.limits))
        answer = Answer(
            model=served.name,
            chat=isinstance(asked, ChatRequest),
            prompt_tokens=sum(map(len, prompts)),
            logprobs=asked.wants_logprobs,
            echoed=asked.echoed(served.tokenizer),
            samples=asked.n,
            decode=served.tokenizer.decode,
        )
        try:
            if asked.stream:
                usage = asked.stream_options is not None and asked.stream_options.include_usage
                return await self._stream(request, channel, answer, usage)
            async for pieces in channel:
                answer.add(pieces)
            return web.json_response(answer.whole())
        finally:
            channel.cancel()  # frees the slots of a client that has gone
            self.metrics.prompt_tokens.inc(answer.usage.prompt)
            self.metrics.drawn_tokens.inc(answer.usage.completion)

    async def _stream(self, request: web.Request, channel: Channel, answer: Answer, usage: bool) -> web.StreamResponse:
        """Server-sent events, until the client closes the connection."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            await _send_events(response, channel, answer, usage)
        return response


async def _send_events(response: web.StreamResponse, channel: Channel, answer: Answer, usage: bool) -> None:
    """The answer in pieces. An error after the first piece can only be reported as another event."""
    begun: set[int] = set()
    try:
        async for pieces in channel:
            answer.add(pieces)
            for piece in pieces:
                await _send(response, answer.chunk(piece, first=piece.choice not in begun))
                begun.add(piece.choice)
    except EngineFailure as error:
        await _send(response, error_body(str(error), "server_error"))
    else:
        if usage:
            await _send(response, answer.usage_chunk())
        await response.write(b"data: [DONE]\n\n")


async def _send(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(f"data: {json.dumps(event)}\n\n".encode())


async def _json(request: web.Request) -> Any:
    try:
        return json.loads(await request.read())
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
