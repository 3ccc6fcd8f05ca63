"""Limits how many bytes of requests a service holds at once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from sandbox.remote import connections


class Arrivals:
    """The bytes of all requests that are being answered, and of each at most `largest`, whose length is declared.

    Only what has come in counts, whatever a request declares. A client, which is an address, may hold as many bytes as
    are left for others; where it holds more, the largest of its requests that are still coming in is refused. So who
    sends much, whether it ends or not, cannot keep others out.
    """

    def __init__(self, most: int, largest: int) -> None:
        self._most = most
        self._largest = largest
        self._sizes: Counter[str] = Counter()  # by client
        self._coming: dict[_Arrival, None] = {}

    @asynccontextmanager
    async def body(self, request: web.Request) -> AsyncIterator[bytearray]:
        """The request's body, which counts until the block ends.

        Raises HTTPLengthRequired, HTTPRequestEntityTooLarge, HTTPRequestTimeout or HTTPTooManyRequests.
        """
        size = request.content_length
        if size is None:
            raise web.HTTPLengthRequired
        if size > self._largest:
            raise web.HTTPRequestEntityTooLarge(self._largest, size)
        client = request.remote or ""
        arrival = _Arrival(client, asyncio.timeout(connections.TRANSFER_SECONDS))
        try:
            try:
                async with arrival.deadline:
                    self._coming[arrival] = None
                    async for part in request.content.iter_any():
                        arrival.body += part
                        self._sizes[client] += len(part)
                        while not arrival.is_refused and self._sizes[client] > self._most - self._sizes.total():
                            own = (one for one in self._coming if one.client == client)
                            self._refuse(max(own, key=lambda one: len(one.body)))
                        if arrival.is_refused:
                            raise TimeoutError
            except TimeoutError:
                raise busy() if arrival.is_refused else _late() from None
            except RuntimeError:
                if request.transport is not None:
                    raise
                raise _late() from None  # it was hung up on; anything else would be in the log
            finally:
                self._coming.pop(arrival, None)
            yield arrival.body
        finally:
            self._let_go(arrival)

    def _refuse(self, arrival: "_Arrival") -> None:
        del self._coming[arrival]
        self._let_go(arrival)
        arrival.is_refused = True
        arrival.deadline.reschedule(0.0)

    def _let_go(self, arrival: "_Arrival") -> None:
        """Free the memory of a body, whoever may still have it: its client may have gone before it was read."""
        self._sizes[arrival.client] -= len(arrival.body)
        self._sizes += Counter()  # forgets who holds nothing
        arrival.body.clear()


@dataclass(eq=False)
class _Arrival:
    """One request that is coming in."""

    client: str
    deadline: asyncio.Timeout
    body: bytearray = field(default_factory=bytearray)
    is_refused: bool = False


def _late() -> web.HTTPRequestTimeout:
    return web.HTTPRequestTimeout(text=f"the request did not come in within {connections.TRANSFER_SECONDS:g} s")


def busy() -> web.HTTPTooManyRequests:
    """What asks a client to come back."""
    return web.HTTPTooManyRequests(
        text="too many jobs wait here: come back later", headers={"Retry-After": str(connections.RETRY_SECONDS)}
    )
