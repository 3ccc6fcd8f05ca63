"""Where programs and tests under evaluation come from: a model, or a file of samples.

Generator ── Talker ── a policy of ours (`policies`), or an endpoint (`endpoint`), answering in words
          └─ Recorded ── a file, or the data's own solutions and tests
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from codea1_jax.game.parsing import extract_program, extract_suite
from data_pipeline import Problem
from sandbox import SuiteTest

Tests = tuple[SuiteTest, ...]


@dataclass(frozen=True)
class TestAsk:
    """Tests asked for: they are for `program`, which the Test LLM is shown.

    `known` are tests written before, as lines `assert CALL == VALUE`, from which one more test is to differ; None asks
    for a whole suite. `number` tells this ask from others about the same problem: its round, or its candidate.
    """

    __test__ = False  # pytest: not a test class

    problem: Problem
    program: str
    known: tuple[str, ...] | None = None
    number: int = 0


@runtime_checkable
class Generator(Protocol):
    """Writes programs and tests. Answers come in any order, each with the index of what was asked."""

    def programs(self, problems: Sequence[Problem], samples: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """`samples` programs for each problem."""
        ...

    def tests(self, asks: Sequence[TestAsk], samples: int) -> Iterator[tuple[int, tuple[Tests, ...]]]:
        """`samples` suites for each ask."""
        ...


# A model: for every ask (a problem is asked for a program), in any order, its index and its responses.
Respond = Callable[[Sequence[Problem | TestAsk], int], Iterator[tuple[int, tuple[str, ...]]]]


@dataclass(frozen=True)
class Talker:
    """A model whose responses are read as the game reads them."""

    respond: Respond

    def programs(self, problems: Sequence[Problem], samples: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The program of each response."""
        for i, responses in self.respond(problems, samples):
            yield i, tuple(extract_program(response) for response in responses)

    def tests(self, asks: Sequence[TestAsk], samples: int) -> Iterator[tuple[int, tuple[Tests, ...]]]:
        """The tests of each response that are in the suite language."""
        for i, responses in self.respond(asks, samples):
            entry_point = asks[i].problem.entry_point
            yield i, tuple(extract_suite(response, entry_point).tests for response in responses)


@dataclass(frozen=True)
class Recorded:
    """Samples written before, by problem id. A problem without any gets none.

    The n-th test of a record answers the n-th ask for one more test; an ask for a whole suite gets all of them.
    """

    programs_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tests_of: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def programs(self, problems: Sequence[Problem], samples: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """All recorded programs, however many were asked for."""
        for i, problem in enumerate(problems):
            yield i, tuple(self.programs_of.get(problem.id, ()))

    def tests(self, asks: Sequence[TestAsk], samples: int) -> Iterator[tuple[int, tuple[Tests, ...]]]:
        """One suite for each ask, however many were asked for."""
        for i, ask in enumerate(asks):
            recorded = self.tests_of.get(ask.problem.id, ())
            texts = recorded if ask.known is None else recorded[ask.number : ask.number + 1]
            suites = (extract_suite(f"```python\n{text}\n```", ask.problem.entry_point) for text in texts)
            yield i, (tuple(test for suite in suites for test in suite.tests),)
