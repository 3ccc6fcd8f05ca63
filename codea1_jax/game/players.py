"""Who writes programs and suites: one protocol for a policy in training, a served model, and recorded samples.

    requests ──► player ──► (index of the request, what was written), in any order

A player reads its own responses: programs are extracted and suites are parsed here and nowhere else.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from codea1_jax.common.errors import UserError
from codea1_jax.config import Reading
from codea1_jax.game.prompts import Prompt, Prompts
from codea1_jax.game.rollouts import Candidate, Response, WrittenSuite
from codea1_jax.game.suites import PLAIN_RULES, SuiteRules
from codea1_jax.game.tasks import task_of
from codea1_jax.rollout import Completion, Request
from data_pipeline import Problem
from data_pipeline.responses import script_in


@dataclass(frozen=True)
class ProgramRequest:
    """`samples` programs that solve a problem. `stream` is the request's own random stream."""

    problem: Problem
    samples: int
    stream: tuple[int, ...] = ()


@dataclass(frozen=True)
class SuiteRequest:
    """`samples` suites for a problem, written against a program, or without one (black box).

    rules: what of the response counts.
    """

    problem: Problem
    program: str | None
    samples: int
    stream: tuple[int, ...] = ()
    rules: SuiteRules = PLAIN_RULES


@dataclass(frozen=True)
class ConversationRequest:
    """One more test function for the problem's solution, in the conversation that has given `earlier` (responses)."""

    problem: Problem
    earlier: tuple[str, ...]
    stream: tuple[int, ...] = ()
    samples: int = 1


AnyRequest = ProgramRequest | SuiteRequest | ConversationRequest
Sample = Callable[[Sequence[Request]], Iterator[tuple[int, tuple[Completion, ...]]]]


@runtime_checkable
class Player(Protocol):
    """Yields the index of a request and all that was written for it, as soon as it is complete.

    What it writes for a request does not depend on the other requests. Test functions stay unread; asking for them
    raises UserError without chat prompts.
    """

    def programs(self, requests: Sequence[ProgramRequest]) -> Iterator[tuple[int, tuple[Candidate, ...]]]: ...

    def suites(self, requests: Sequence[SuiteRequest]) -> Iterator[tuple[int, tuple[WrittenSuite, ...]]]: ...

    def test_functions(self, requests: Sequence[ConversationRequest]) -> Iterator[tuple[int, tuple[Response, ...]]]: ...


def read_program(response: Response, request: ProgramRequest, reading: Reading) -> Candidate:
    return Candidate(response, task_of(request.problem).read_program(response.text, request.problem, reading))


def read_suite(response: Response, request: SuiteRequest, reading: Reading) -> WrittenSuite:
    suite = task_of(request.problem).read_suite(response.text, request.problem, reading, request.rules)
    return WrittenSuite(response, suite)


@dataclass(frozen=True)
class PolicyPlayer:
    """A policy of known parameters. Its methods raise UserError for a prompt that is too long.

    sample: draws completions, in any order. longest_prompt: in tokens.
    """

    sample: Sample
    prompts: Prompts
    decode: Callable[[Sequence[int]], str]
    longest_prompt: int = sys.maxsize
    reading: Reading = "commonmark"
    _encoded: dict[SuiteRequest, Prompt] = field(default_factory=dict, init=False, repr=False, compare=False)

    def programs(self, requests: Sequence[ProgramRequest]) -> Iterator[tuple[int, tuple[Candidate, ...]]]:
        prompts = [self.prompts.code(r.problem) for r in requests]
        for i, responses in self._responses(requests, prompts):
            if self.prompts.begins(requests[i].problem):
                yield i, tuple(Candidate(each, script_in(each.text)) for each in responses)
            else:
                yield i, tuple(read_program(response, requests[i], self.reading) for response in responses)

    def suites(self, requests: Sequence[SuiteRequest]) -> Iterator[tuple[int, tuple[WrittenSuite, ...]]]:
        prompts = [self._encoded.pop(r, None) or self.prompts.test(r.problem, r.program) for r in requests]
        for i, responses in self._responses(requests, prompts):
            yield i, tuple(read_suite(response, requests[i], self.reading) for response in responses)

    def test_functions(self, requests: Sequence[ConversationRequest]) -> Iterator[tuple[int, tuple[Response, ...]]]:
        prompts = [self.prompts.test_function(r.problem, r.earlier) for r in requests]
        return self._responses(requests, prompts)

    def fits(self, request: SuiteRequest) -> bool:
        """Whether the prompt is short enough. It is encoded here for later: the devices may be busy meanwhile."""
        prompt = self.prompts.test(request.problem, request.program)
        if len(prompt) > self.longest_prompt:
            return False
        self._encoded[request] = prompt
        return True

    def _responses(
        self, requests: Sequence[AnyRequest], prompts: Sequence[Prompt]
    ) -> Iterator[tuple[int, tuple[Response, ...]]]:
        for prompt, request in zip(prompts, requests, strict=True):
            if len(prompt) > self.longest_prompt:
                raise UserError(
                    f"{request.problem.id}: its prompt of {len(prompt)} tokens is longer than the model takes, which "
                    f"is {self.longest_prompt}; leave the question out, or use a model with a longer context"
                )
        requested = [Request(p, r.stream, r.samples) for p, r in zip(prompts, requests, strict=True)]
        for i, completions in self.sample(requested):
            yield i, tuple(Response(self.decode(c.tokens), prompts[i], c) for c in completions)


@dataclass(frozen=True)
class TextPlayer:
    """A model that answers in words alone. respond: yields (index of the request, its responses), in any order."""

    respond: Callable[[Sequence[AnyRequest]], Iterator[tuple[int, tuple[str, ...]]]]
    reading: Reading = "commonmark"

    def programs(self, requests: Sequence[ProgramRequest]) -> Iterator[tuple[int, tuple[Candidate, ...]]]:
        for i, texts in self.respond(requests):
            yield i, tuple(read_program(Response(text), requests[i], self.reading) for text in texts)

    def suites(self, requests: Sequence[SuiteRequest]) -> Iterator[tuple[int, tuple[WrittenSuite, ...]]]:
        for i, texts in self.respond(requests):
            yield i, tuple(read_suite(Response(text), requests[i], self.reading) for text in texts)

    def test_functions(self, requests: Sequence[ConversationRequest]) -> Iterator[tuple[int, tuple[Response, ...]]]:
        for i, texts in self.respond(requests):
            yield i, tuple(map(Response, texts))
