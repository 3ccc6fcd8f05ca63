"""Takes HTTP connections for an application, and never more than this host has descriptors for.

Who is slow to send a request, or sends none, is hung up on: after `IDLE_SECONDS`, or at once where others need its
place; a body or an answer may take `TRANSFER_SECONDS`. Where all places are held by requests that are being worked on,
newcomers are asked to come back.
"""

import asyncio
import itertools
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from sandbox.host.descriptors import make_room
from sandbox.jobs import SandboxUnavailable

MOST = 4_096  # connections at once
IDLE_SECONDS = 20.0  # that a connection may stay without a complete request
TRANSFER_SECONDS = 60.0  # for the whole of a request to come in, and of an answer to go out
RETRY_SECONDS = 1

_LOGGER = logging.getLogger(__name__)
_HELD: web.AppKey[set[web.RequestHandler]] = web.AppKey("held")
_AT_ONCE = 8  # connections that are taken in at once, while those that were hung up on keep their descriptors
_WAITING = 1_024  # connections that the kernel keeps until they are taken in
_LINGER_SECONDS = 5.0  # for the rest of a request that was answered before it was read
_REFUSAL = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def allot(reserved: int = 0) -> int:
    """How many connections this process can have, with `reserved` more descriptors for its own use.

    Raises the soft limit. Raises SandboxUnavailable where none are left for connections.
    """
    most = min(MOST, make_room(reserved + 2 * MOST) - reserved - 4 * _AT_ONCE)
    if most < 1:
        raise SandboxUnavailable(
            "no file descriptors are left for connections: raise the hard limit (`ulimit -n 65536`)"
        )
    return most


@contextmanager
def held(request: web.Request) -> Iterator[None]:
    """While the block lasts, the request's connection keeps its place."""
    places = request.app[_HELD]
    places.add(request.protocol)
    try:
        yield
    finally:
        places.discard(request.protocol)


@asynccontextmanager
async def hung_up_on_unless_read(request: web.Request) -> AsyncIterator[None]:
    """For a block that sends: who does not read what is sent must not keep it in memory."""
    try:
        async with asyncio.timeout(TRANSFER_SECONDS):
            yield
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()


async def sent(request: web.Request, response: web.Response) -> web.Response:
    """Send an answer here rather than have it sent. Who hangs up meanwhile leaves no trace in the log."""
    with suppress(ConnectionError):
        async with hung_up_on_unless_read(request):
            await response.prepare(request)
            await response.write_eof()
    return response


@asynccontextmanager
async def listening(
    app: web.Application, host: str, port: int, most: int = MOST, grace: float = 60.0
) -> AsyncIterator[tuple[str, int]]:
    """Serve `app` while the block lasts; its address and port. Raises OSError where they are taken.

    Requests in progress have `grace` seconds after the block.
    """
    places = app[_HELD] = set()
    runner = web.AppRunner(
        app,
        handler_cancellation=True,  # a job whose client has gone is not worth starting
        shutdown_timeout=grace,
        keepalive_timeout=IDLE_SECONDS,
        lingering_time=_LINGER_SECONDS,
        auto_decompress=False,
        access_log=None,
        logger=_LOGGER,
    )
    await runner.setup()
    server = runner.server
    assert server is not None

    def take() -> asyncio.Protocol:
        if len(places) >= most:
            return _Refusal()
        if len(server.connections) >= most:
            idle = (c for c in server.connections if c not in places and c.transport is not None)
            for oldest in itertools.islice(idle, 1):  # none: they are being closed
                oldest.force_close()
        return server()

    try:
        listener = await asyncio.get_running_loop().create_server(take, host, port, backlog=_AT_ONCE)
        for bound in listener.sockets:  # asyncio takes in at once as many as it lets wait, which may be too few
            with socket.socket(fileno=os.dup(bound.fileno())) as same:
                same.listen(_WAITING)
        try:
            yield listener.sockets[0].getsockname()[:2]
        finally:
            listener.close()
    finally:
        await runner.cleanup()


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether an error is the service's own. With those of requests that are not HTTP, anybody could fill the disk."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOGGER.addFilter(_is_ours)


class _Refusal(asyncio.Protocol):
    """Answers before it is asked."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(_REFUSAL.format(RETRY_SECONDS).encode())
        transport.close()
