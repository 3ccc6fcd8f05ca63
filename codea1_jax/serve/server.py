"""One process, one batcher, two services: started together, stopped together, nothing left behind."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

from codea1_jax.common.console import progress_bar
from codea1_jax.common.errors import UserError
from codea1_jax.models.ahead import drop_waiting
from codea1_jax.models.decoder import Params
from codea1_jax.models.policy import Policy
from codea1_jax.rollout import Capacity, Sampler
from codea1_jax.runtime.interrupts import SIGNALS
from codea1_jax.serve.batcher import Batcher
from codea1_jax.serve.grpc_service import start_grpc
from codea1_jax.serve.http import make_app
from codea1_jax.serve.orders import Limits
from sandbox.remote.http_service import listening

logger = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost", "::1")
WAITING = 1024  # orders that may wait


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
            raise UserError(f"listening on {self.host or 'every address'} needs a token that clients must send")

    def check_free(self) -> None:
        """Raises OSError, which names the reason, where one of the ports is in use, or the host is not this one."""
        for service, port in (("HTTP", self.http_port), ("gRPC", self.grpc_port)):
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            try:
                socket.create_server((self.host, port), family=family).close()
            except OSError as error:
                number = error.errno or 0
                reason = os.strerror(number) if number > 0 else error.strerror  # negative for a host without an address
                raise OSError(
                    f"cannot listen for {service} at {self.host} port {port}: {reason}; choose another port or host"
                ) from error


@dataclass(eq=False)
class Server:
    """A policy at an address, until stopped.

    grace: seconds that requests in progress have after `stop`.
    """

    name: str
    policy: Policy
    params: Params
    capacity: Capacity
    address: Address
    grace: float = 10.0

    def __post_init__(self) -> None:
        self._stopped = asyncio.Event()
        self._failure: Exception | None = None

    def stop(self) -> None:
        """Lets `run` end: no new requests, those in progress have their grace. Call it in the event loop's thread."""
        self._stopped.set()

    async def run(self, ready: Callable[[Address], None]) -> None:
        """Compiles, and serves until `stop`; `ready` gets the address once requests are taken.

        Raises OSError where the address is not available, and what the engine raised if it failed.
        """
        self.address.check_free()  # grpc itself would log it and give no reason
        loop = asyncio.get_running_loop()

        def on_failure(error: Exception) -> None:
            loop.call_soon_threadsafe(self._fail, error)

        batcher = await asyncio.to_thread(self._batcher, on_failure)
        if self._stopped.is_set():
            return
        batcher.start()
        try:
            await self._serve(batcher, ready)
        finally:
            await asyncio.to_thread(batcher.stop)  # its thread may still be answering into this loop
        if self._failure is not None:
            raise self._failure

    def _batcher(self, on_failure: Callable[[Exception], object]) -> Batcher:
        """A batcher with every program compiled that requests can need, unless stopped meanwhile."""
        capacity, model, tokenizer = self.capacity, self.policy.model, self.policy.tokenizer
        limits = Limits(
            prompt=capacity.prompt_buckets[-1],
            response=capacity.response_buckets[-1],
            vocabulary=tokenizer.vocab_size,
            samples=capacity.width,
            waiting=WAITING,
            characters=capacity.prompt_buckets[-1] * max(map(len, tokenizer.hf.get_vocab())),
        )
        sampler = Sampler(model, eos_ids=tokenizer.eos_ids, pad_id=tokenizer.pad_id, seed=0, capacity=capacity)
        batcher = Batcher(sampler, self.params, tokenizer, limits, on_failure)
        with progress_bar("compiling") as show:
            for done, programs in batcher.sampler.compiling():
                show(done, programs)
                if self._stopped.is_set():
                    drop_waiting()
                    break
        return batcher

    async def _serve(self, batcher: Batcher, ready: Callable[[Address], None]) -> None:
        address, grace = self.address, self.grace
        app = make_app(self.name, batcher, address.token)
        grpc_server, grpc_port = await start_grpc(batcher, address.host, address.grpc_port, address.token)
        try:
            async with listening(app, address.host, address.http_port, grace) as (_, http_port):
                ready(replace(address, http_port=http_port, grpc_port=grpc_port))
                await self._stopped.wait()
                stopping = asyncio.create_task(grpc_server.stop(grace))  # while HTTP's requests have theirs
            await stopping
        finally:
            await grpc_server.stop(0)

    def _fail(self, error: Exception) -> None:
        logger.error("the engine failed: %s", error)
        self._failure = error
        self.stop()


def run_until_signalled(server: Server, ready: Callable[[Address], None]) -> None:
    """Runs the server until SIGINT, SIGTERM or SIGHUP; a second one ends the process as it would any other."""

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            logger.info("stopping: requests in progress are answered first")
            for number in SIGNALS:
                loop.remove_signal_handler(number)
            server.stop()

        for number in SIGNALS:
            loop.add_signal_handler(number, stop)
        await server.run(ready)

    asyncio.run(run())
