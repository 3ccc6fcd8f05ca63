"""One process, one Driver, two services: started together, stopped together, nothing left behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from codea1_jax.common.console import progress_bar
from codea1_jax.common.errors import UserError
from codea1_jax.hosts.interrupts import SIGNALS
from codea1_jax.models.policy import Policy
from codea1_jax.models.qwen2 import Params
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.jetstream.engine import JetStreamEngine
from codea1_jax.serve.driver import Driver
from codea1_jax.serve.grpc_service import CONNECTIONS, start_grpc
from codea1_jax.serve.http import Served, make_app
from codea1_jax.serve.listening import check_free
from codea1_jax.serve.orders import Limits
from codea1_jax.serve.warm_up import warm_up
from sandbox.remote.connections import allot, listening

logger = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost", "::1")
WAITING = 1024  # orders that may wait for a slot


@dataclass(frozen=True)
class Address:
    """Where to listen; port 0 is any free one. `token` is asked of clients unless empty.

    Raises UserError for an address that others reach, without a token.
    """

    host: str
    http_port: int
    grpc_port: int
    token: str

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK and not self.token:
            where = self.host or "every address"
            raise UserError(f"listening on {where} needs a token that clients must send: see --token-file")

    def check_free(self) -> None:
        """Raises OSError where one of the ports is in use, or the host is not this one."""
        check_free("HTTP", self.host, self.http_port, "--port")
        check_free("gRPC", self.host, self.grpc_port, "--grpc-port")  # grpc itself would log it and give no reason


@dataclass(frozen=True)
class Ports:
    """Where the services listen."""

    http: int
    grpc: int


class Server:
    """A policy at an address, until stopped.

    grace: seconds that requests in progress have after `stop`.
    """

    def __init__(
        self, name: str, policy: Policy, params: Params, capacity: Capacity, address: Address, grace: float = 10.0
    ) -> None:
        self._name = name
        self._policy = policy
        self._params = params
        self._capacity = capacity
        self._address = address
        self._grace = grace
        self._stopped = asyncio.Event()
        self._failure: Exception | None = None

    def stop(self) -> None:
        """Lets `run` end: no new requests, those in progress have their grace. Call it in the event loop's thread."""
        self._stopped.set()

    async def run(self, ready: Callable[[Ports], None]) -> None:
        """Compiles, and serves until `stop`; `ready` is called once requests are taken.

        Raises OSError where the address is not available, SandboxUnavailable where no descriptors are left for
        connections, and what the engine raised if it failed.
        """
        self._address.check_free()
        places = allot(2 * CONNECTIONS)  # descriptors that gRPC may take
        engine = JetStreamEngine(self._policy.model, self._policy.tokenizer, self._capacity)
        params = engine.decode_params(self._params)
        with progress_bar("compiling") as show:
            await asyncio.to_thread(warm_up, engine, params, self._capacity, show, self._stopped.is_set)
        if self._stopped.is_set():
            return
        loop = asyncio.get_running_loop()
        driver = self._driver(engine, params, lambda error: loop.call_soon_threadsafe(self._fail, driver, error))
        try:
            await self._serve(driver, places, ready)
        finally:
            await asyncio.to_thread(driver.stop)  # the threads may still be answering into this loop
        if self._failure is not None:
            raise self._failure

    async def _serve(self, driver: Driver, places: tuple[int, int], ready: Callable[[Ports], None]) -> None:
        address, grace = self._address, self._grace
        served = Served(self._name, self._policy.tokenizer, driver, self._capacity.slots)
        grpc_server, grpc_port = await start_grpc(driver, address.host, address.grpc_port, address.token)
        try:
            async with listening(
                make_app(served, address.token), address.host, address.http_port, *places, grace=grace
            ) as (_, http_port):
                ready(Ports(http_port, grpc_port))
                await self._stopped.wait()
                stopping = asyncio.create_task(grpc_server.stop(grace))  # while HTTP's requests have theirs
            await stopping
        finally:
            await grpc_server.stop(0)

    def _driver(self, engine: JetStreamEngine, params: Params, on_failure: Callable[[Exception], Any]) -> Driver:
        tokenizer = self._policy.tokenizer
        limits = Limits(
            prompt=self._capacity.prompt_buckets[-1],
            response=self._capacity.response_buckets[-1],
            vocabulary=tokenizer.vocab_size,
            samples=self._capacity.width,
            waiting=WAITING,
        )
        return Driver(engine, params, tokenizer, limits, on_failure)

    def _fail(self, driver: Driver, error: Exception) -> None:
        logger.error("the engine failed: %s", error)
        self._failure = self._failure or error
        driver.fail_open_orders(error)
        self.stop()


def run_until_signalled(server: Server, ready: Callable[[Ports], None]) -> None:
    """Runs the server until SIGINT, SIGTERM or SIGHUP; a second one ends the process as it would any other."""
    asyncio.run(_run_until_signalled(server, ready))


async def _run_until_signalled(server: Server, ready: Callable[[Ports], None]) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        logger.info("stopping: requests in progress are answered first")
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        server.stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    await server.run(ready)
