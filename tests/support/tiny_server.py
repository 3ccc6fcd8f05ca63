"""A server of a tiny policy, in its own thread."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import openai
from capacities import for_slots

from codea1_jax.models.decoder import Params
from codea1_jax.models.policy import Policy
from codea1_jax.rollout import Capacity
from codea1_jax.serve.server import Address, Server

CAPACITY = for_slots(4, 2, (64,), (64,), block=8, prefill_tokens=64)
TOKEN = "open sesame"


@dataclass(frozen=True)
class Running:
    address: Address
    policy: Policy
    params: Params

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.address.http_port}"

    def client(self, **settings) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=f"{self.url}/v1", **{"api_key": TOKEN, "max_retries": 0, "timeout": 60, **settings}
        )


@contextmanager
def running(
    policy: Policy, params: Params, capacity: Capacity = CAPACITY, **settings
) -> Iterator[tuple[Running, threading.Thread]]:
    """Starts a server, and stops it at the end."""
    address: Future[Address] = Future()
    made: Future[Server] = Future()

    async def serve() -> None:
        made.set_result(Server("tiny", policy, params, capacity, Address("127.0.0.1", 0, 0, TOKEN), **settings))
        await made.result().run(address.set_result)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="server")
    thread.start()
    try:
        yield Running(address.result(60), policy, params), thread
    finally:
        loop.call_soon_threadsafe(made.result().stop)
        thread.join(60)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
