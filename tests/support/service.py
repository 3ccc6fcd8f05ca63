"""A service that runs in a thread of the test's process, and requests to it."""

import asyncio
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from sandbox.remote.http_service import listening


def answer_to(url: str, body: bytes | None = None, **headers: str) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers of the answer to a POST, or without a body to a GET."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as response:
            return response.status, response.read().decode(), dict(response.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def get(url: str) -> str:
    """The text of a page."""
    return answer_to(url)[1]


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
