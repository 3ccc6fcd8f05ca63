"""Lets clients take turns where more jobs come than can be worked on."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sandbox.remote.arrivals import busy


class Turns:
    """Works on `at_once` jobs and lets `room` more wait. Whose turn is next goes around among the clients that wait.

    So a client with thousands of waiting jobs delays each of another's jobs by one. When `room` is
    full, the last job of the client that has the most is refused.
    """

    def __init__(self, at_once: int, room: int) -> None:
        self.waiting = 0
        self._free = at_once
        self._room = room
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """For a block that works on a job of this client. Raises HTTPTooManyRequests."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(client)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, client: str) -> None:
        if self.waiting >= self._room:
            longest = max(self._queues, key=self._length, default=client)
            if self._length(longest) <= self._length(client) + 1:
                raise busy()
            refused = self._take(longest, -1)
            if not refused.cancelled():
                refused.set_exception(busy())
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(mine)
        self.waiting += 1
        try:
            await mine
        except asyncio.CancelledError:  # the client has hung up
            queue = self._queues.get(client, deque())
            if mine in queue:
                self._take(client, queue.index(mine))
            elif not mine.cancelled() and mine.exception() is None:
                self._pass_on()
            raise

    def _length(self, client: str) -> int:
        return len(self._queues.get(client, ()))

    def _take(self, client: str, place: int) -> "asyncio.Future[None]":
        queue = self._queues[client]
        one = queue[place]
        del queue[place]
        if not queue:
            del self._queues[client]
        self.waiting -= 1
        return one

    def _pass_on(self) -> None:
        """Give a turn to the next client that waits. One that has hung up passes it on."""
        while self._queues:
            client = next(iter(self._queues))
            self._queues.move_to_end(client)
            one = self._take(client, 0)
            if not one.cancelled():
                one.set_result(None)
                return
        self._free += 1
