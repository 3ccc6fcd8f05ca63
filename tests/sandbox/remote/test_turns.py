"""Who waits for a turn at the service, who gets it, and who is refused."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiohttp import web
from service import running
from test_run_code import ask

from sandbox import SandboxPool
from sandbox.remote.server import make_app
from sandbox.remote.turns import Turns


class Clients:
    """Jobs of several clients, each of which works until `end` is called."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.order: list[str] = []
        self.refused: list[str] = []
        self.end = asyncio.Event()

    async def job(self, client: str) -> None:
        try:
            async with self.turns.turn(client):
                self.order.append(client)
                await self.end.wait()
        except web.HTTPTooManyRequests:
            self.refused.append(client)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def queued(clients: Clients, names: str) -> list[asyncio.Task[None]]:
    """Jobs that came one after another."""
    tasks = []
    for name in names:
        tasks.append(asyncio.create_task(clients.job(name)))
        await settle()
    return tasks


def test_turns_go_around_among_those_who_wait():
    async def main() -> None:
        clients = Clients(Turns(1, 100))
        tasks = await queued(clients, "aaaaaabbc")
        assert clients.order == ["a"] and clients.turns.waiting == 8
        clients.end.set()
        await asyncio.gather(*tasks)
        assert "".join(clients.order) == "aabcabaaa"
        assert clients.turns.waiting == 0

    asyncio.run(main())


def test_where_there_is_no_room_whoever_has_most_waiting_is_refused():
    async def main() -> None:
        clients = Clients(Turns(1, 4))
        tasks = await queued(clients, "aaaaaabbbc")
        assert clients.refused == ["a", "a", "a", "b", "a"]
        clients.end.set()
        await asyncio.gather(*tasks)
        assert sorted(clients.order) == list("aabbc")

    asyncio.run(main())


@pytest.mark.parametrize("gone", [1, 2, 4])
def test_those_who_hang_up_leave_their_place_to_others(gone: int):
    async def main() -> None:
        clients = Clients(Turns(1, 100))
        tasks = await queued(clients, "abcde")
        for task in tasks[:gone]:
            task.cancel()
        await settle()
        assert clients.order == ["a", "abcde"[gone]] and clients.turns.waiting == 4 - gone
        clients.end.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert "".join(clients.order) == "a" + "abcde"[gone:]

    asyncio.run(main())


def test_a_turn_that_nobody_takes_is_free_again():
    async def main() -> None:
        clients = Clients(Turns(2, 100))
        tasks = await queued(clients, "aabb")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        later = await queued(clients, "cc")
        assert clients.order == ["a", "a", "c", "c"]
        clients.end.set()
        await asyncio.gather(*later)

    asyncio.run(main())


def test_thousands_that_hang_up_at_once_cost_no_turn():
    async def main() -> None:
        turns = Turns(1, 5_000)
        clients = Clients(turns)
        async with turns.turn("a"):
            tasks = [asyncio.create_task(clients.job("b")) for _ in range(3_000)]
            await settle()
            for task in tasks:
                task.cancel()
        async with asyncio.timeout(10), turns.turn("c"):
            assert turns.waiting == 0 and not clients.order

    asyncio.run(main())


def test_under_overload_every_answer_is_a_right_result_or_a_refusal():
    def one(number: int) -> tuple[int, object]:
        status, answer = ask(address, code=f"print({number} * 2)", language="python")
        return status, answer["run_result"]["stdout"] if status == 200 else answer

    with (
        SandboxPool(workers=1, pending=2) as pool,
        running(make_app(pool)) as address,
        ThreadPoolExecutor(16) as threads,
    ):
        answers = list(threads.map(one, range(64)))
    assert {status for status, _ in answers} == {200, 429}
    assert all(text == f"{2 * i}\n" for i, (status, text) in enumerate(answers) if status == 200)
