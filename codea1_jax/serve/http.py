"""The HTTP service: OpenAI's /v1/models, /v1/completions and /v1/chat/completions, /health (/healthz) and /metrics.

With a token, requests under /v1 must carry ``Authorization: Bearer TOKEN``. Every error is a JSON object as OpenAI's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from codea1_jax.serve.batcher import Batcher, Channel, EngineFailure, Piece
from codea1_jax.serve.best_of import Chooser
from codea1_jax.serve.openai_answers import Answer, error_body
from codea1_jax.serve.openai_requests import ChatRequest, CompletionRequest, drawing_of, orders_of, parse
from codea1_jax.serve.orders import BadRequest, Busy, Order
from sandbox import SandboxError
from sandbox.remote.bearer import authorizes
from sandbox.remote.http_service import hung_up_on_unless_read, read_body, sent

MAX_REQUEST = 16 << 20  # bytes

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Metrics:
    """Prometheus metrics in their own registry: HTTP requests, and the batcher's state, which includes gRPC's."""

    def __init__(self, batcher: Batcher, rows: int) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("codea1_requests", "HTTP requests by status", ["path", "status"], registry=registry)
        self.prompt_tokens = Counter("codea1_prompt_tokens", "tokens of prompts", registry=registry)
        self.drawn_tokens = Counter("codea1_drawn_tokens", "tokens drawn for answers", registry=registry)
        self.seconds = Histogram("codea1_request_seconds", "time to the end of an answer", ["path"], registry=registry)
        Gauge("codea1_slots", "samples that are decoded at once", registry=registry).set(rows)
        for name, about, read in (
            ("codea1_open_orders", "orders that wait or are being decoded", lambda: batcher.open_orders),
            ("codea1_waiting_orders", "orders that are not prefilled yet", lambda: batcher.waiting_orders),
        ):
            Gauge(name, about, registry=registry).set_function(read)


def make_app(name: str, batcher: Batcher, rows: int, token: str, chooser: Chooser | None) -> web.Application:
    """The service of a model, by the name that clients call it; `rows` are decoded at once. chooser: for `best_of`."""
    service = _Service(name, batcher, rows, chooser)

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
    app.router.add_get("/v1/models/{name:.+}", service.model)
    app.router.add_post("/v1/completions", service.completions)
    app.router.add_post("/v1/chat/completions", service.chat)
    return app


async def _answered(request: web.Request, handler: _Handler, token: str) -> web.StreamResponse:
    """The handler's response, or the error's."""
    if request.path.startswith("/v1/") and not authorizes(request.headers.get("Authorization", ""), token):
        return _error(401, "a bearer token is needed", "authentication_error", "invalid_api_key")
    try:
        return await handler(request)
    except BadRequest as error:
        return _error(error.status, str(error), "invalid_request_error", error.code, error.param)
    except Busy as error:
        return _error(429, str(error), "rate_limit_error")
    except (EngineFailure, SandboxError) as error:
        return _error(500, str(error), "server_error")
    except web.HTTPException as error:  # no such path or method, or a body that is too large or too slow
        return _error(error.status, error.text or error.reason, "invalid_request_error")


def _error(status: int, message: str, kind: str, code: str | None = None, param: str | None = None) -> web.Response:
    return web.json_response(error_body(message, kind, code, param), status=status)


class _Service:
    def __init__(self, name: str, batcher: Batcher, rows: int, chooser: Chooser | None) -> None:
        self._name, self._batcher, self._chooser = name, batcher, chooser
        self._started = int(time.time())
        self.metrics = _Metrics(batcher, rows)

    async def health(self, _request: web.Request) -> web.Response:
        live = self._batcher.live
        return web.json_response({"status": "ok" if live else "stopping"}, status=200 if live else 503)

    async def show_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self.metrics.registry), content_type="text/plain", charset="utf-8")

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [self._card()]})

    async def model(self, request: web.Request) -> web.Response:
        self._require(request.match_info["name"])
        return web.json_response(self._card())

    def _card(self) -> dict[str, Any]:
        """The model as OpenAI's and vLLM's clients read it."""
        limits = self._batcher.limits
        return {
            "id": self._name,
            "object": "model",
            "created": self._started,
            "owned_by": "codea1",
            "root": self._name,
            "parent": None,
            "max_model_len": limits.prompt + limits.response,
        }

    def _require(self, model: str) -> None:
        if model != self._name:
            message = f"there is no model {model!r} here, only {self._name!r}"
            raise BadRequest(message, "model", status=404, code="model_not_found")

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, CompletionRequest)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, ChatRequest)

    async def _generate(self, request: web.Request, kind: type[CompletionRequest | ChatRequest]) -> web.StreamResponse:
        body = await read_body(request)
        # In a thread, for a long text would hold up everybody's.
        asked, orders, answer = await asyncio.to_thread(self._read, kind, body)
        if isinstance(asked, CompletionRequest) and asked.chooses:
            return await sent(request, web.json_response(await self._best(asked, answer)))
        return await self._answer(request, asked, self._batcher.submit(orders), answer)

    def _read(
        self, kind: type[CompletionRequest | ChatRequest], body: bytes
    ) -> tuple[CompletionRequest | ChatRequest, list[Order], Answer]:
        asked, batcher = parse(kind, body), self._batcher
        self._require(asked.model)
        prompts = asked.prompts(batcher.tokenizer)
        answer = Answer(
            model=self._name,
            chat=isinstance(asked, ChatRequest),
            prompt_tokens=sum(map(len, prompts)),
            logprobs=asked.wants_logprobs,
            bytes_of=batcher.bytes_of,
        )
        return asked, orders_of(asked, prompts, batcher.limits), answer

    async def _best(self, asked: CompletionRequest, answer: Answer) -> dict[str, Any]:
        if self._chooser is None:
            raise BadRequest("best_of: start the server of a run with --best-of, which loads its Test LLM", "best_of")
        programs, drawn = await self._chooser.best(
            str(asked.prompt), asked.best_of, *drawing_of(asked, self._batcher.limits)
        )
        answer.add([Piece(program, [], [], [], i, "stop") for i, program in enumerate(programs[: asked.n])])
        answer.completion_tokens = drawn
        self.metrics.prompt_tokens.inc(answer.prompt_tokens)
        self.metrics.drawn_tokens.inc(drawn)
        return answer.whole()

    async def _answer(
        self, request: web.Request, asked: CompletionRequest | ChatRequest, channel: Channel, answer: Answer
    ) -> web.StreamResponse:
        try:
            if asked.stream:
                usage = asked.stream_options is not None and asked.stream_options.include_usage
                return await self._stream(request, channel, answer, usage)
            async for pieces in channel:
                answer.add(pieces)
            return await sent(request, web.json_response(answer.whole()))
        finally:
            channel.cancel()  # frees the slots of a client that has gone
            self.metrics.prompt_tokens.inc(answer.prompt_tokens)
            self.metrics.drawn_tokens.inc(answer.completion_tokens)

    async def _stream(self, request: web.Request, channel: Channel, answer: Answer, usage: bool) -> web.StreamResponse:
        """Server-sent events, until the client closes the connection."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)

            async def send(event: str) -> None:
                async with hung_up_on_unless_read(request):
                    await response.write(f"data: {event}\n\n".encode())

            await _send_events(send, channel, answer, usage)
        return response


async def _send_events(send: Callable[[str], Awaitable[None]], channel: Channel, answer: Answer, usage: bool) -> None:
    """The answer in pieces. An error after the first piece can only be reported as another event."""
    begun: set[int] = set()
    try:
        async for pieces in channel:
            answer.add(pieces)
            for piece in pieces:
                await send(json.dumps(answer.chunk(piece, first=piece.choice not in begun)))
                begun.add(piece.choice)
    except EngineFailure as error:
        await send(json.dumps(error_body(str(error), "server_error")))
    else:
        if usage:
            await send(json.dumps(answer.usage_chunk()))
        await send("[DONE]")
