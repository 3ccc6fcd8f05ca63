"""Orders decoded together as they come: one thread over one rollout, whose schedule takes them between two blocks."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codea1_jax.models.decoder import Params
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.rollout import Request, Sampler, Sampling
from codea1_jax.rollout.decode import DecodedBlock
from codea1_jax.rollout.sampling import Controls, SamplingKind
from codea1_jax.rollout.shards import Sample
from codea1_jax.serve.orders import Busy, Limits, Order
from codea1_jax.serve.text import TextStream, TokenBytes

_IDLE = Sampling(1)  # of a row without a sample


class EngineFailure(RuntimeError):
    """The engine cannot continue; the message explains why."""


@dataclass(frozen=True)
class Piece:
    """What a block added to one sample.

    choice: the sample's number in the answer.
    finish: "stop" or "length" with a sample's last piece.
    """

    text: str
    tokens: list[int]
    choice: int
    finish: str | None


class Channel:
    """Pieces of a client's samples on their way to its event loop; it ends with the last piece of the last sample.

    cancelled: whether nobody reads it any more, which frees the samples' rows.
    """

    def __init__(self, samples: int) -> None:
        self.cancelled = False
        self._unfinished = samples
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[list[Piece] | EngineFailure] = asyncio.Queue()

    def put(self, pieces: list[Piece] | EngineFailure) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, pieces)

    def cancel(self) -> None:
        self.cancelled = True

    async def __aiter__(self) -> AsyncIterator[list[Piece]]:
        while self._unfinished:
            pieces = await self._queue.get()
            if isinstance(pieces, EngineFailure):
                raise pieces
            self._unfinished -= sum(piece.finish is not None for piece in pieces)
            yield pieces


class _Job:
    def __init__(self, order: Order, channel: Channel, bytes_of: TokenBytes, eos_ids: Sequence[int]) -> None:
        self.order, self.channel, self._eos_ids = order, channel, eos_ids
        self._texts = [TextStream(bytes_of, order.stop) for _ in range(order.samples)]
        self._num_taken = [0] * order.samples

    def take(self, index: int, start: int, tokens: list[int], *, ended: bool) -> Piece:
        """A block's tokens of one sample, of which it had `start` before; those drawn again after a preemption pass."""
        tokens = tokens[self._num_taken[index] - start :]
        self._num_taken[index] += len(tokens)
        at_eos = ended and bool(tokens) and tokens[-1] in self._eos_ids
        stream = self._texts[index]
        text, count = stream.feed(tokens[:-1] if at_eos else tokens, last=ended)
        finish = "stop" if stream.stopped or at_eos else "length" if ended else None
        return Piece(text, tokens[:count], self.order.choice + index, finish)


class Batcher:
    """Orders in, pieces out. Wait until the sampler has compiled, then `start`.

    on_failure: called, in the decoding thread, if the engine cannot continue.
    """

    def __init__(
        self,
        sampler: Sampler,
        params: Params,
        tokenizer: Tokenizer,
        limits: Limits,
        on_failure: Callable[[Exception], Any],
    ) -> None:
        self.limits = limits
        self.tokenizer = tokenizer
        self._bytes_of = TokenBytes(tokenizer)
        self.sampler = sampler
        sampler.compile(params, SamplingKind.FILTERED, by_row=True)
        self._rollout = sampler.open(params, [], SamplingKind.FILTERED, limits.response)
        self._on_failure = on_failure
        self._changed = threading.Condition()
        self._arrived: list[_Job] = []
        self._jobs: dict[int, _Job] = {}  # by index in the schedule
        self._over: EngineFailure | None = None
        self._thread = threading.Thread(target=self._run, name="decoding")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. Whoever still waits gets an EngineFailure."""
        self._end(EngineFailure("the server stops"))
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def live(self) -> bool:
        return self._thread.is_alive() and self._over is None

    @property
    def open_orders(self) -> int:
        return len(self._arrived) + len(self._jobs)

    def submit(self, orders: Sequence[Order]) -> Channel:
        """Has the orders decoded; what comes of all of them is in one channel. Call it where an event loop runs.

        Cancelling the channel frees their rows. Raises BadRequest, Busy or EngineFailure, and then takes none of them.
        """
        for order in orders:
            self.limits.check(order)
        channel = Channel(sum(order.samples for order in orders))
        with self._changed:
            if self._over is not None:
                raise self._over
            waiting = len(self._arrived) + self._rollout.schedule.num_queued
            if waiting + len(orders) > self.limits.waiting:
                raise Busy(f"{waiting} requests wait already; try again")
            self._arrived += [_Job(order, channel, self._bytes_of, self.tokenizer.eos_ids) for order in orders]
            self._changed.notify()
        return channel

    def _run(self) -> None:
        try:
            while self._take_orders():
                self._decode_block()
        except Exception as error:  # noqa: BLE001  (whoever waits gets it, and the server ends with it)
            self._end(EngineFailure(f"the engine failed: {error}"))
            self._on_failure(error)
        for job in (*self._jobs.values(), *self._arrived):
            assert self._over is not None  # why the loop has ended
            job.channel.put(self._over)

    def _end(self, reason: EngineFailure) -> None:
        with self._changed:
            self._over = self._over or reason
            self._changed.notify()

    def _take_orders(self) -> bool:
        """Waits for work, hands the schedule what has arrived and drops what nobody reads; False at the end."""
        schedule = self._rollout.schedule
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._arrived or self._jobs)
            if self._over is not None:
                return False
            for job in self._arrived:
                order, limits = job.order, (job.order.sampling.max_new_tokens,) * job.order.samples
                request = Request(order.prompt, order.stream, order.samples, limits, order.seed, order.first)
                self._jobs[schedule.add(request)] = job
            self._arrived = []
        for index in [index for index, job in self._jobs.items() if job.channel.cancelled]:
            schedule.drop(index)
            del self._jobs[index]
        return True

    def _decode_block(self) -> None:
        sampler, schedule = self.sampler, self._rollout.schedule
        prefills = schedule.admit()
        if not schedule.busy:
            return
        samples, starts = schedule.samples(), schedule.rows().num_generated
        running = sampler.start_block(self._rollout, prefills, self._controls(samples))
        for index, _ in schedule.record(self._pass_on(samples, np.asarray(starts), sampler.fetch(running))):
            del self._jobs[index]

    def _controls(self, samples: Sequence[Sample | None]) -> Controls:
        samplings = [self._jobs[sample.group.request].order.sampling if sample else _IDLE for sample in samples]
        rows: Any = (np.array(numbers) for numbers in zip(*map(Controls.of, samplings), strict=True))
        return Controls(*rows)

    def _pass_on(self, samples: Sequence[Sample | None], starts: np.ndarray, block: DecodedBlock) -> DecodedBlock:
        """Sends every client what the block brought; the block in which samples that a stop string ended have ended."""
        active = np.array(block.active)
        pieces: defaultdict[Channel, list[Piece]] = defaultdict(list)
        for row, sample in enumerate(samples):
            if sample is not None:
                job = self._jobs[sample.group.request]
                tokens = np.asarray(block.tokens)[: int(block.count[row]), row].tolist()
                piece = job.take(sample.index, int(starts[row]), tokens, ended=not active[row])
                active[row] &= piece.finish is None
                pieces[job.channel].append(piece)
        for channel, brought in pieces.items():
            channel.put(brought)
        changed: Any = active
        return block._replace(active=changed)
