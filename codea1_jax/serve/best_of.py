"""`best_of`: programs for a question, of which tests of the Test LLM choose, as in `codea1 solve`."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from codea1_jax.common.errors import UserError
from codea1_jax.evals.collaboration import solve
from codea1_jax.game.players import Player, Sample
from codea1_jax.models.decoder import Params
from codea1_jax.models.policy import Policy
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.rollout import Completion, Request, Sampling
from codea1_jax.serve.batcher import Batcher
from codea1_jax.serve.orders import BadRequest, Order, split
from data_pipeline import BadRow, problem_files
from sandbox import Judge

AT_ONCE = 8  # questions; further ones wait


@dataclass(frozen=True)
class Choosing:
    """What `best_of` needs besides the Code LLM.

    tester: the Test LLM; None if the Code LLM plays both roles.
    player: makes a player of what samples, its tokenizer and its longest prompt.
    """

    tester: tuple[Policy, Params] | None
    player: Callable[[Sample, Tokenizer, int], Player]
    judge: Judge


class Chooser:
    """Solves questions with the samples of two batchers, which may be one. Close it after them."""

    def __init__(self, choosing: Choosing, coder: Batcher, tester: Batcher) -> None:
        self._choosing, self._coder, self._tester = choosing, coder, tester
        self._threads = ThreadPoolExecutor(AT_ONCE, "best_of")
        self.close = self._threads.shutdown

    async def best(self, question: str, samples: int, sampling: Sampling, seed: int) -> tuple[list[str], int]:
        """The programs that were drawn, the best first, and how many tokens were, those of tests included.

        Raises BadRequest for what cannot be asked, Busy, EngineFailure, and SandboxError if the judge fails.
        """
        loop, drawn = asyncio.get_running_loop(), []

        def player(batcher: Batcher) -> Player:
            def sample(requests: Sequence[Request]) -> Iterator[tuple[int, tuple[Completion, ...]]]:
                pending = asyncio.run_coroutine_threadsafe(_draw(batcher, requests, sampling, seed), loop)
                brought = pending.result()
                drawn.extend(brought)
                yield from enumerate(brought)

            return self._choosing.player(sample, batcher.tokenizer, batcher.limits.prompt)

        try:
            problem = problem_files.question("question", question)
            players = player(self._coder), player(self._tester)
            survivors = await loop.run_in_executor(
                self._threads, solve, problem, *players, samples, self._choosing.judge
            )
        except (UserError, BadRow) as error:  # a prompt that is too long, or empty
            raise BadRequest(str(error), "prompt") from error
        programs = [each.program for each in survivors for _ in range(each.copies)]
        return programs, sum(len(each.tokens) for completions in drawn for each in completions)


async def _draw(
    batcher: Batcher, requests: Sequence[Request], sampling: Sampling, seed: int
) -> list[tuple[Completion, ...]]:
    """What is drawn for each request."""
    orders = [Order(each.prompt, sampling, seed, each.stream, each.samples) for each in requests]
    pieces = defaultdict(list)
    async for brought in batcher.submit(split(orders, batcher.limits.samples)):
        for piece in brought:
            pieces[piece.choice].append(piece)
    samples = (
        Completion(
            tuple(token for piece in parts for token in piece.tokens),
            tuple(logprob for piece in parts for logprob in piece.logprobs),
            parts[-1].finish == "stop",
        )
        for _, parts in sorted(pieces.items())
    )
    return [tuple(next(samples) for _ in range(each.samples)) for each in requests]
