"""A round that was sampled, kept so that it can be replayed after the policies that sampled it have changed.

In a checkpoint it is JSON: arrays are base64 of their bytes, little-endian. 256 questions x 8 programs x 8 suites of
500 tokens take 100 MB.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from codea1_jax.config import Role
from codea1_jax.game.players import PolicyPlayer
from codea1_jax.game.rollouts import Response
from codea1_jax.game.round import Game, Pending
from codea1_jax.rollout import Completion, Request
from codea1_jax.rollout.sampler import Counters

Completions = tuple[tuple[Completion, ...], ...]
"""Of every request, in the order in which they are asked."""


@dataclass(frozen=True)
class SampledRound:
    """Every role's completions in a round; none of a role that does not play.

    work: of every role's sampler. seconds: that it took, by stage.
    """

    code: Completions
    test: Completions
    work: Mapping[Role, Counters]
    seconds: Mapping[str, float]


def sampled_round(pending: Pending[Any]) -> SampledRound:
    """What the candidates of a round's questions, and their suites, were drawn as."""
    code = tuple(_completions(c.response for c in group) for group in pending.groups)
    # Suites that are shared were drawn for the first of the programs that share them.
    first = (c for group in pending.groups for k, c in enumerate(group) if c.duplicate_of == k and c.suites)
    test = tuple(_completions(suite.response for suite in c.suites) for c in first)
    return SampledRound(code, test, pending.work, pending.seconds)


def replaying(game: Game, kept: SampledRound) -> Game:
    """The game in which both roles answer, request by request, what was drawn before."""

    def player(policy: PolicyPlayer | None, completions: Completions) -> PolicyPlayer | None:
        return None if policy is None else replace(policy, sample=_in_turn(completions))

    return replace(game, code=player(game.code, kept.code), test=player(game.test, kept.test))


def pack_sampled(kept: SampledRound) -> dict[str, Any]:
    """As JSON."""
    work = {role: vars(counters) for role, counters in kept.work.items()}
    return {"code": _packed(kept.code), "test": _packed(kept.test), "work": work, "seconds": dict(kept.seconds)}


def unpack_sampled(document: Mapping[str, Any]) -> SampledRound:
    """The inverse of `pack_sampled`."""
    work = {role: Counters(**counts) for role, counts in document["work"].items()}
    return SampledRound(_unpacked(document["code"]), _unpacked(document["test"]), work, document["seconds"])


def _completions(responses: Iterable[Response]) -> tuple[Completion, ...]:
    completions = []
    for response in responses:
        assert response.completion is not None  # only policies draw, and they answer in tokens
        completions.append(response.completion)
    return tuple(completions)


def _in_turn(
    completions: Completions,
) -> Callable[[Sequence[Request]], Iterator[tuple[int, tuple[Completion, ...]]]]:
    def sample(requests: Sequence[Request]) -> Iterator[tuple[int, tuple[Completion, ...]]]:
        if [request.samples for request in requests] != list(map(len, completions)):
            raise ValueError(f"{len(requests)} requests are not those that {len(completions)} were drawn for")
        return iter(enumerate(completions))

    return sample


def _packed(completions: Completions) -> dict[str, Any]:
    each = list(chain.from_iterable(completions))
    return {
        "samples": list(map(len, completions)),
        "lengths": [len(completion.tokens) for completion in each],
        "finished": [completion.finished for completion in each],
        "tokens": _base64(chain.from_iterable(completion.tokens for completion in each), "<i4"),
        "logprobs": _base64(chain.from_iterable(completion.logprobs for completion in each), "<f4"),
    }


def _unpacked(document: Mapping[str, Any]) -> Completions:
    ends = np.cumsum([0, *document["lengths"]])
    tokens, logprobs = _from_base64(document["tokens"], "<i4"), _from_base64(document["logprobs"], "<f4")
    each = iter(
        Completion(tuple(tokens[start:end]), tuple(logprobs[start:end]), finished)
        for (start, end), finished in zip(pairwise(ends), document["finished"], strict=True)
    )
    return tuple(tuple(next(each) for _ in range(samples)) for samples in document["samples"])


def _base64(values: Iterable[float], dtype: str) -> str:
    return base64.b64encode(np.fromiter(values, dtype).tobytes()).decode("ascii")


def _from_base64(text: str, dtype: str) -> list[Any]:
    return np.frombuffer(base64.b64decode(text), dtype).tolist()
