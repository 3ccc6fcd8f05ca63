"""Test-time collaboration: of N programs, take the one that passes the most generated tests.

Nothing of the problem but its question is used to choose: a test counts with the answer that it states, right or wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codea1_jax.game.judging import PendingOutcomes, StatedAnswers, submit_calls
from data_pipeline import Problem
from data_pipeline.imports import with_imports
from sandbox import Judge, Outcome, SuiteTest


@dataclass(frozen=True)
class Choice:
    """Which program was taken, by how many of the tests each passes."""

    task_id: str
    tests: int
    passes: tuple[int, ...]

    @property
    def chosen(self) -> int:
        """The index of the program that passes most; of several the first."""
        return self.passes.index(max(self.passes))


class PendingChoice:
    """A problem's programs and the tests written for them, already submitted; equal programs are run once."""

    def __init__(
        self, judge: Judge, problem: Problem, programs: Sequence[str], suites: Sequence[Sequence[SuiteTest]]
    ) -> None:
        self._problem, self._programs = problem, programs
        self._tests = tuple(dict.fromkeys(test for suite in suites for test in suite))
        calls = [test.call for test in self._tests]
        self._stated = StatedAnswers(judge, [test.stated for test in self._tests])
        self._pending: Mapping[str, PendingOutcomes] = {
            program: submit_calls(judge, with_imports(program, problem), calls, problem.entry_point)
            for program in dict.fromkeys(programs)
        }

    def result(self) -> Choice:
        """Waits for the last answer. Raises SandboxError if the judge fails."""
        stated = self._stated.result()
        passes = {program: self._passes(a.result().by_call, stated) for program, a in self._pending.items()}
        return Choice(self._problem.id, len(self._tests), tuple(passes[program] for program in self._programs))

    def _passes(self, outcomes: Mapping[str, Outcome], stated: Mapping[str, str | None]) -> int:
        pairs = ((outcomes[test.call].value, stated[test.stated]) for test in self._tests)
        same = self._problem.tolerance.same
        return sum(value is not None and answer is not None and same(value, answer) for value, answer in pairs)
