"""The one shape in which every data source hands over its questions."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A programming question with a trusted solution.

    `golden_tests` are lines `assert CALL == VALUE`; `check` is the source's own checking code where it has
    some; `probe_calls` are calls that together cover every small input, so that agreement with the solution
    on all of them is an exact score; `mutants` are fixed wrong programs; `preamble` is code that the source's own
    scorer puts before every sample.
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


@dataclass(frozen=True)
class Refusal:
    """A row that gives no problem, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Loaded:
    """What one source gave: every row is among the problems or among the refused."""

    problems: tuple[Problem, ...]
    refused: tuple[Refusal, ...] = ()

    def refusing(self, reasons: Mapping[str, str]) -> "Loaded":
        """The same with the problems of these ids among the refused."""
        return Loaded(
            tuple(problem for problem in self.problems if problem.id not in reasons),
            self.refused + tuple(Refusal(name, reason) for name, reason in reasons.items()),
        )
