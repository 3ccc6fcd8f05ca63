"""The HTTP service: OpenAI's /v1/models, /v1/completions and /v1/chat/completions, and /health (/healthz).

With a token, requests under /v1 must carry ``Authorization: Bearer TOKEN``. Every error is a JSON object as OpenAI's.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import web

from codea1_jax.serve.batcher import Batcher, Channel, EngineFailure
from codea1_jax.serve.openai_answers import Answer, error_body
from codea1_jax.serve.openai_requests import ChatRequest, CompletionRequest, orders_of, parse
from codea1_jax.serve.orders import BadRequest, Busy, Order
from sandbox.remote.bearer import authorizes
from sandbox.remote.http_service import hung_up_on_unless_read, read_body, sent

MAX_REQUEST = 16 << 20  # bytes

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(name: str, batcher: Batcher, token: str) -> web.Application:
    service = _Service(name, batcher)

    @web.middleware
    async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
        if request.path.startswith("/v1/") and not authorizes(request.headers.get("Authorization", ""), token):
            return _error(401, "a bearer token is needed", "authentication_error", "invalid_api_key")
        try:
            return await handler(request)
        except BadRequest as error:
            return _error(error.status, str(error), "invalid_request_error", error.code, error.param)
        except Busy as error:
            return _error(429, str(error), "rate_limit_error")
        except EngineFailure as error:
            return _error(500, str(error), "server_error")
        except web.HTTPException as error:  # no such path or method, or a body that is too large or too slow
            return _error(error.status, error.text or error.reason, "invalid_request_error")

    app = web.Application(middlewares=[guarded], client_max_size=MAX_REQUEST)
    app.router.add_get("/health", service.health)  # as vLLM and SGLang call it
    app.router.add_get("/healthz", service.health)
    app.router.add_get("/v1/models", service.models)
    app.router.add_get("/v1/models/{name:.+}", service.model)
    app.router.add_post("/v1/completions", partial(service.generate, CompletionRequest))
    app.router.add_post("/v1/chat/completions", partial(service.generate, ChatRequest))
    return app


def _error(status: int, message: str, kind: str, code: str | None = None, param: str | None = None) -> web.Response:
    return web.json_response(error_body(message, kind, code, param), status=status)


class _Service:
    def __init__(self, name: str, batcher: Batcher) -> None:
        self._name, self._batcher = name, batcher
        self._started = int(time.time())

    async def health(self, _request: web.Request) -> web.Response:
        live = self._batcher.live
        state = {"status": "ok" if live else "stopping", "open_requests": self._batcher.open_orders}
        return web.json_response(state, status=200 if live else 503)

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [self._card()]})

    async def model(self, request: web.Request) -> web.Response:
        self._require(request.match_info["name"])
        return web.json_response(self._card())

    def _card(self) -> dict[str, Any]:
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

    async def generate(self, kind: type[CompletionRequest | ChatRequest], request: web.Request) -> web.StreamResponse:
        body = await read_body(request)
        # In a thread, because a long text would hold up all other requests.
        asked, orders, answer = await asyncio.to_thread(self._read, kind, body)
        channel = self._batcher.submit(orders)
        try:
            if asked.stream:
                usage = asked.stream_options is not None and asked.stream_options.include_usage
                return await self._stream(request, channel, answer, usage)
            async for pieces in channel:
                answer.add(pieces)
            return await sent(request, web.json_response(answer.whole()))
        finally:
            channel.cancel()  # frees the slots of a client that has gone

    def _read(
        self, kind: type[CompletionRequest | ChatRequest], body: bytes
    ) -> tuple[CompletionRequest | ChatRequest, list[Order], Answer]:
        asked, batcher = parse(kind, body), self._batcher
        self._require(asked.model)
        prompts = asked.prompts(batcher.tokenizer, batcher.limits)
        answer = Answer(self._name, sum(map(len, prompts)), chat=isinstance(asked, ChatRequest))
        return asked, orders_of(asked, prompts, batcher.limits), answer

    async def _stream(self, request: web.Request, channel: Channel, answer: Answer, usage: bool) -> web.StreamResponse:
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
