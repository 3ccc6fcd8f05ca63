"""The shape that every dataset gives its questions."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A programming question with a trusted solution.

    `description` is the question without examples, for those who write tests; empty where the question has none.
    `golden_tests` are lines `assert CALL == VALUE`; `check` is the dataset's own checking code, if it has any;
    `probe_calls` together cover every small input, so agreement with the solution on all of them is an exact score;
    `mutants` are fixed wrong programs; `preamble` is code that the dataset's own scorer puts before every program.
    """

    id: str
    question: str
    solution: str
    entry_point: str
    golden_tests: tuple[str, ...]
    check: str = ""
    probe_calls: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    preamble: str = ""
    source: str = ""
    description: str = ""

    @property
    def described(self) -> str:
        """What those who write tests are shown of the question."""
        return self.description or self.question


@dataclass(frozen=True)
class Refusal:
    """A row that was not read as a problem, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Loaded:
    """What was read from one source: every row is among the problems or among the refused."""

    problems: tuple[Problem, ...]
    refused: tuple[Refusal, ...] = ()

    def refusing(self, reasons: Mapping[str, str]) -> "Loaded":
        """The same with the problems of these ids among the refused."""
        return Loaded(
            tuple(problem for problem in self.problems if problem.id not in reasons),
            self.refused + tuple(Refusal(name, reason) for name, reason in reasons.items()),
        )
