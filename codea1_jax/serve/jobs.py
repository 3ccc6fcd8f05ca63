"""An order on its way through JetStream's Driver, and what comes back of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from codea1_jax.rollout.jetstream.results import Token
from codea1_jax.rollout.jetstream.shims import AsyncMultifuture, ReturnSample, orchestrator
from codea1_jax.serve.orders import Order
from codea1_jax.serve.text import TextStream


@dataclass
class Piece(ReturnSample):
    """What a block added to one sample: text, by characters, and its tokens with their logprobs.

    offsets: where in the sample's text each token begins.
    choice: the sample's number in the answer.
    finish: "stop" or "length" with a sample's last piece.
    """

    logprobs: list[float]
    offsets: list[int]
    choice: int
    finish: str | None


class Channel(AsyncMultifuture[Sequence[Piece]]):
    """What several jobs of one request answer into; it ends with the last of them."""

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self._jobs = jobs

    def close(self) -> None:
        """One job is done."""
        self._jobs -= 1
        if self._jobs == 0:
            super().close()


class Job(orchestrator.ActiveRequest):
    """An order in the Driver's terms. It turns tokens into text itself: the Driver would do so token by token.

    Setting `complete` for all samples is how a job leaves its slot: at a stop string, at the last token, or when the
    client has gone.
    """

    def __init__(
        self,
        order: Order,
        bytes_of: Callable[[int], bytes],
        channel: AsyncMultifuture[Any],
        done: Callable[[Job], None],
    ) -> None:
        super().__init__(
            max_tokens=order.sampling.max_new_tokens, return_channel=channel, is_client_side_tokenization=True
        )
        self.order = order
        self._texts = [TextStream[Token](bytes_of, order.stop) for _ in range(order.samples)]
        self._drawn = [0] * order.samples
        self._finished = [False] * order.samples
        self._done = done

    def enqueue_samples(self, generated_samples: list[ReturnSample]) -> None:
        """Takes in what a block drew for each row of the slot. The Driver has marked the rows that are complete."""
        assert self.complete is not None  # set by the Driver when it gives a job its slot
        if self.return_channel.cancelled():
            self.complete[:] = True
        else:
            rows = [row for row, finished in enumerate(self._finished) if not finished]
            drawn: Any = [generated_samples[row].token_ids for row in rows]  # the Tokens that the engine gave
            self.return_channel.add_result([self._piece(row, new) for row, new in zip(rows, drawn, strict=True)])
        if self.complete.all():
            self._done(self)

    def _piece(self, row: int, tokens: Sequence[Token]) -> Piece:
        assert self.complete is not None
        self._drawn[row] += len(tokens)
        full = self._drawn[row] >= self.max_tokens
        ended = bool(self.complete[row])
        text, shown = self._texts[row].feed(tokens, last=ended or full)
        finish = None
        if ended or full or self._texts[row].stopped:
            finish = "length" if full and not self._texts[row].stopped else "stop"
            self._finished[row] = self.complete[row] = True
        return Piece(
            text=list(text),  # in characters, because the gRPC service reads a whole string such as "<0x41>" as a byte
            token_ids=[int(token) for token, _ in shown],
            logprobs=[token.logprob for token, _ in shown],
            offsets=[offset for _, offset in shown],
            choice=self.order.choice + row,
            finish=finish,
        )
