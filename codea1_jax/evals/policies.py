"""Policies of ours as models under evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from codea1_jax.evals.generators import TestAsk
from codea1_jax.evals.prompts import AskPrompt
from codea1_jax.game.round import Speaker
from codea1_jax.rollout import Request
from data_pipeline import Problem


@dataclass(frozen=True)
class PolicyModel:
    """A sampled policy. What it says to an ask depends on the ask and on `stream` alone, not on the others asked."""

    speaker: Speaker
    prompt: AskPrompt
    decode: Callable[[Sequence[int]], str]
    stream: tuple[int, ...] = ()

    def __call__(self, asks: Sequence[Problem | TestAsk], samples: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Responses to each ask, as `generators.Respond`. Raises ValueError for a prompt that is too long."""
        requests = [Request(self.prompt(ask), (*self.stream, *identity(ask)), samples) for ask in asks]
        for i, completions in self.speaker(requests):
            yield i, tuple(self.decode(completion.tokens) for completion in completions)


def identity(ask: Problem | TestAsk) -> tuple[int, int, int]:
    """An ask's own random stream: its kind, its number and its problem, whatever else is asked."""
    if isinstance(ask, Problem):
        kind, number, problem = 0, 0, ask
    else:
        kind, number, problem = 1 + (ask.known is not None), ask.number, ask.problem
    digest = hashlib.sha256(problem.id.encode()).digest()
    return kind, number, int.from_bytes(digest[:4], "big") >> 1
