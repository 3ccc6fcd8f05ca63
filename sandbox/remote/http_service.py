"""What the judge's HTTP service and the model's have in common: listening, and hanging up on clients that are slow.

A connection may stay `IDLE_SECONDS` without a complete request; a body or an answer may take `TRANSFER_SECONDS`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from sandbox.host.descriptors import make_room

IDLE_SECONDS = 20.0
TRANSFER_SECONDS = 60.0
LINGER_SECONDS = 5.0  # for the rest of a request that was answered before it was read

_CONNECTIONS = 4_096  # for which there are descriptors, if the hard limit allows it

_LOGGER = logging.getLogger(__name__)


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int, grace: float = 60.0) -> AsyncIterator[tuple[str, int]]:
    """Serves `app` while the block lasts; yields its address and port. Raises OSError where they are taken.

    Requests in progress have `grace` seconds after the block.
    """
    make_room(_CONNECTIONS)
    runner = web.AppRunner(
        app,
        handler_cancellation=True,  # a job whose client has gone is not worth starting
        shutdown_timeout=grace,
        keepalive_timeout=IDLE_SECONDS,
        lingering_time=LINGER_SECONDS,
        auto_decompress=False,
        access_log=None,
        logger=_LOGGER,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=1_024).start()
        yield runner.addresses[0][:2]
    finally:
        await runner.cleanup()


async def read_body(request: web.Request) -> bytes:
    """The request's body. Raises HTTPRequestEntityTooLarge beyond the application's size, and HTTPRequestTimeout."""
    if (request.content_length or 0) > request.client_max_size:
        raise web.HTTPRequestEntityTooLarge(request.client_max_size, request.content_length or 0)
    try:
        async with asyncio.timeout(TRANSFER_SECONDS):
            return await request.read()
    except TimeoutError:
        text = f"the request did not come in within {TRANSFER_SECONDS:g} s"
        raise web.HTTPRequestTimeout(text=text) from None


@asynccontextmanager
async def hung_up_on_unless_read(request: web.Request) -> AsyncIterator[None]:
    """For a block that sends: a client that does not read must not keep the answer in memory."""
    try:
        async with asyncio.timeout(TRANSFER_SECONDS):
            yield
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()


async def sent(request: web.Request, response: web.Response) -> web.Response:
    """Sends an answer here rather than have it sent. A client that hangs up meanwhile leaves no trace in the log."""
    with suppress(ConnectionError):
        async with hung_up_on_unless_read(request):
            await response.prepare(request)
            await response.write_eof()
    return response


def _is_own(record: logging.LogRecord) -> bool:
    """Whether an error is the service's own. With those of requests that are not HTTP, anybody could fill the disk."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOGGER.addFilter(_is_own)
