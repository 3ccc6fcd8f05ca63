"""Samples written before, as a player."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from codea1_jax.game.parsing import Suite, suite_in
from codea1_jax.game.players import (
    ConversationRequest,
    ProgramRequest,
    Response,
    SuiteRequest,
    WrittenProgram,
    WrittenSuite,
)


@dataclass(frozen=True)
class RecordedPlayer:
    """Samples by problem id, however many are requested. A problem without any gets none.

    The n-th test of a record answers the n-th request for one more test, or test function; where there is none, the
    response is empty. A request for a suite gets all of them.
    """

    programs_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tests_of: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def programs(self, requests: Sequence[ProgramRequest]) -> Iterator[tuple[int, tuple[WrittenProgram, ...]]]:
        """The recorded programs as they are: they are not extracted from responses."""
        for i, request in enumerate(requests):
            recorded = self.programs_of.get(request.problem.id, ())
            yield i, tuple(WrittenProgram(Response(program), program) for program in recorded)

    def suites(self, requests: Sequence[SuiteRequest]) -> Iterator[tuple[int, tuple[WrittenSuite, ...]]]:
        """One suite for each request."""
        for i, request in enumerate(requests):
            recorded = self.tests_of.get(request.problem.id, ())
            texts = recorded if request.known is None else recorded[request.number : request.number + 1]
            # Each text by itself: one that does not parse costs no other.
            suites = [suite_in(text, request.problem.entry_point, request.rules) for text in texts]
            suite = Suite(
                tuple(test for each in suites for test in each.tests),
                tuple(rejected for each in suites for rejected in each.rejected),
            )
            yield i, (WrittenSuite(Response("\n".join(texts)), suite),)

    def test_functions(self, requests: Sequence[ConversationRequest]) -> Iterator[tuple[int, tuple[Response, ...]]]:
        """The next recorded text of each problem; bare asserts become a test function."""
        for i, request in enumerate(requests):
            recorded = self.tests_of.get(request.problem.id, ())
            (text,) = recorded[len(request.earlier) : len(request.earlier) + 1] or ("",)
            if text.startswith("assert "):
                text = f"def test():\n{textwrap.indent(text, '    ')}"
            yield i, (Response(text),)
