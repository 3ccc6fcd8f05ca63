"""A service that runs in a thread of the test's process."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from sandbox.remote.http_service import listening


@contextmanager
def running(app: web.Application, port: int = 0) -> Iterator[str]:
    """The address of an application that serves while the block lasts."""
    loop = asyncio.new_event_loop()
    serving = listening(app, "127.0.0.1", port)
    host, port = loop.run_until_complete(serving.__aenter__())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://{host}:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
