"""JetStream's gRPC service. A request is answered with one sample, drawn greedily: its protocol has no other wish."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
from jetstream.core.proto import jetstream_pb2, jetstream_pb2_grpc

from codea1_jax.serve.batcher import Batcher, EngineFailure
from codea1_jax.serve.orders import BadRequest, Busy, Order, sampling_of
from sandbox.remote.bearer import authorizes

protocol: Any = jetstream_pb2  # made at run time, so a type checker knows nothing of its messages


class Orchestrator(jetstream_pb2_grpc.OrchestratorServicer):
    """The service's two calls. With a token, Decode requires `authorization: Bearer TOKEN`."""

    def __init__(self, batcher: Batcher, token: str) -> None:
        self._batcher = batcher
        self._token = token

    async def Decode(self, request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        """Streams DecodeResponses: tokens for tokens, text and tokens for text.

        Aborts with UNAUTHENTICATED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED or INTERNAL.
        """
        metadata: Any = context.invocation_metadata()
        if not authorizes(str(dict(metadata or ()).get("authorization", "")), self._token):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is needed")
        with_text = request.WhichOneof("content") == "text_content"
        content = protocol.DecodeResponse.StreamContent
        channel = None
        try:
            channel = self._batcher.submit([self._order_of(request)])
            async for (piece,) in channel:
                text = {"text": piece.text} if with_text else {}
                sample = content.Sample(token_ids=piece.tokens, **text)
                yield protocol.DecodeResponse(stream_content=content(samples=[sample]))
        except BadRequest as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except Busy as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except EngineFailure as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))
        finally:
            if channel is not None:
                channel.cancel()  # frees the row of a client that has gone

    async def HealthCheck(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return protocol.HealthCheckResponse(is_live=self._batcher.live)

    def _order_of(self, request: Any) -> Order:
        which = request.WhichOneof("content")
        if which is None:
            raise BadRequest("neither text_content nor token_content is set")
        if request.session_cache:
            raise BadRequest("session_cache: this server keeps no sessions; send the whole prompt")
        if which == "text_content":
            self._batcher.limits.check_texts([request.text_content.text])
            prompt = self._batcher.tokenizer.encode_prompt(request.text_content.text)
        else:
            prompt = tuple(request.token_content.token_ids)
        return Order(prompt, sampling_of(request.max_tokens, temperature=0.0))


async def start_grpc(batcher: Batcher, host: str, port: int, token: str) -> tuple[grpc.aio.Server, int]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])  # else a second server would share the port
    jetstream_pb2_grpc.add_OrchestratorServicer_to_server(Orchestrator(batcher, token), server)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    bound = server.add_insecure_port(address)
    await server.start()
    return server, bound
