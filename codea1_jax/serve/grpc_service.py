"""JetStream's gRPC service. A request is answered with one sample, drawn greedily: its protocol has no other wish."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from codea1_jax.rollout.jetstream.shims import jetstream_pb2_grpc, orchestrator
from codea1_jax.serve.driver import Driver, EngineFailure
from codea1_jax.serve.orders import BadRequest
from sandbox.remote.bearer import authorizes


class Orchestrator(orchestrator.LLMOrchestrator):
    """As JetStream's, with errors that name what is wrong. With a token, Decode wants `authorization: Bearer TOKEN`."""

    def __init__(self, driver: Driver, token: str) -> None:
        super().__init__(driver)
        self._token = token

    async def Decode(self, request: Any, context: grpc.aio.ServicerContext | None = None) -> AsyncIterator[Any]:
        """Streams DecodeResponses. Aborts with UNAUTHENTICATED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED or INTERNAL."""
        assert context is not None  # JetStream allows none in its own offline tests
        metadata: Any = context.invocation_metadata()
        if not authorizes(str(dict(metadata or ()).get("authorization", "")), self._token):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is needed")
        if request.WhichOneof("content") is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "neither text_content nor token_content is set")
        try:
            async for response in super().Decode(request, context):
                yield response
        except BadRequest as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except EngineFailure as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))


CONNECTIONS = 256  # at once; one carries many requests
HANDSHAKE_SECONDS = 20  # that a connection may take to begin to speak HTTP/2
_OPTIONS = [
    ("grpc.so_reuseport", 0),  # else a second server would share the port
    ("grpc.max_allowed_incoming_connections", CONNECTIONS),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_SECONDS * 1_000),
]


async def start_grpc(driver: Driver, host: str, port: int, token: str) -> tuple[grpc.aio.Server, int]:
    """Listens at a port that is free, at any for 0; returns the server and its port."""
    server = grpc.aio.server(options=_OPTIONS)
    jetstream_pb2_grpc.add_OrchestratorServicer_to_server(Orchestrator(driver, token), server)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    bound = server.add_insecure_port(address)
    await server.start()
    return server, bound
