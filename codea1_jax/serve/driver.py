"""JetStream's Driver over our engine, where each request draws by its own numbers and no mistake kills the process."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from codea1_jax.models.qwen2 import Params
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.rollout.jetstream.engine import JetStreamEngine, Prompt, SampleKeys
from codea1_jax.rollout.jetstream.shims import AsyncMultifuture, orchestrator
from codea1_jax.rollout.jetstream.tokenizer import EngineTokenizer
from codea1_jax.rollout.schedule import sample_key
from codea1_jax.serve.jobs import Channel, Job
from codea1_jax.serve.orders import BadRequest, Busy, Limits, Order, sampling_of
from codea1_jax.serve.text import TokenBytes


class EngineFailure(RuntimeError):
    """The engine cannot continue; the message explains why."""


class Driver(orchestrator.Driver):
    """Orders in, pieces out. JetStream's threads run as they are; what is changed is what they are given.

    on_failure: called, in the thread that failed, if the engine cannot continue.
    """

    def __init__(
        self,
        engine: JetStreamEngine,
        params: Params,
        tokenizer: Tokenizer,
        limits: Limits,
        on_failure: Callable[[Exception], Any],
    ) -> None:
        self.limits = limits
        self.bytes_of = TokenBytes(tokenizer)
        self._tokenizer = tokenizer
        self._open: dict[int, Job] = {}
        self._watch = _Watch(on_failure)
        # "Interleaved": prefill and generate take turns on the same devices. This starts the threads.
        super().__init__([engine], [engine], [params], [params], interleaved_mode=True, jax_padding=False)

    @property
    def open_orders(self) -> int:
        """Orders that wait or are being decoded."""
        return len(self._open)

    @property
    def waiting_orders(self) -> int:
        """Orders that are not prefilled yet."""
        return self._prefill_backlog.qsize()

    def submit(self, orders: Sequence[Order]) -> Channel:
        """Has the orders decoded; what comes of all of them is in one channel. Call it where an event loop runs.

        Cancelling the channel frees the slots. Raises BadRequest or Busy, and then takes none of them.
        """
        for order in orders:
            self.limits.check(order)
        if self.waiting_orders + len(orders) > self.limits.waiting:
            raise Busy(f"{self.waiting_orders} requests wait already; try again")
        channel = Channel(len(orders))
        for order in orders:
            self._place(order, channel)
        return channel

    def place_request_on_prefill_queue(self, request: orchestrator.ActiveRequest) -> None:
        """Takes a request of the gRPC service, which draws greedily. Raises BadRequest, and queue.Full as JetStream."""
        order = self._order_of(request)
        self.limits.check(order)
        if self.waiting_orders >= self.limits.waiting:
            raise queue.Full
        self._place(order, request.return_channel)

    def fail_open_orders(self, error: Exception) -> None:
        """Tells everyone who waits that nothing more will come."""
        for job in list(self._open.values()):
            job.return_channel.set_exception(EngineFailure(f"the engine failed: {error}"))

    def _order_of(self, request: orchestrator.ActiveRequest) -> Order:
        if request.history_path:
            raise BadRequest("session_cache: this server keeps no sessions; send the whole prompt")
        content: Any = request.prefill_content
        prompt = self._tokenizer.encode(content) if isinstance(content, str) else tuple(content)
        return Order(prompt, sampling_of(request.max_tokens, temperature=0.0))

    def _place(self, order: Order, channel: AsyncMultifuture) -> None:
        job = Job(order, self.bytes_of, channel, self._forget)
        self._open[id(job)] = job
        super().place_request_on_prefill_queue(job)

    def _forget(self, job: Job) -> None:
        self._open.pop(id(job), None)

    # What follows overrides what JetStream keeps to itself; a test of the whole service holds it in place.

    def _process_prefill_content(
        self, request: Job, tokenizer: EngineTokenizer, is_bos: bool, max_prefill_length: int
    ) -> tuple[Prompt, int]:
        """JetStream's own puts a token before the prompt, cuts long ones, and leaves no way to choose how to draw."""
        order = request.order
        samples = range(order.first, order.first + order.samples)
        keys = np.stack([sample_key(order.seed, order.stream, sample) for sample in samples])
        return Prompt(tokenizer.pad(order.prompt), SampleKeys(order.sampling, keys)), len(order.prompt)

    def _prefill_thread(self, idx: int) -> None:
        with self._watch:
            super()._prefill_thread(idx)

    def _transfer_thread(self, idx: int) -> None:
        with self._watch:
            super()._transfer_thread(idx)

    def _generate_thread(self, idx: int) -> None:
        with self._watch:
            super()._generate_thread(idx)

    def _detokenize_thread(self, idx: int) -> None:
        with self._watch:
            super()._detokenize_thread(idx)


class _Watch:
    """Ends a thread that fails, and reports why: JetStream would leave its clients without an answer."""

    def __init__(self, tell: Callable[[Exception], Any]) -> None:
        self._tell = tell

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        if isinstance(error, Exception):
            self._tell(error)
            return True
        return False
