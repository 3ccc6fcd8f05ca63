"""The shape that every dataset gives its questions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox import FEW_ULPS, Task, Tolerance, classes, nodes
from sandbox.syntax import with_lines

Row = dict[str, Any]  # as it is read
_LONGEST_REASON = 300  # characters


class BadRow(ValueError):
    """A row that cannot be read as a problem; the message is the reason."""


def one_line(error: Exception | str) -> str:
    """The message of an error, cut where it is very long."""
    return visible(" ".join(str(error).split())[:_LONGEST_REASON])


def visible(text: str) -> str:
    """A text as a terminal may show it: what it would obey, or cannot show, is spelled as Python spells it."""
    return "".join(each if each.isprintable() or each in "\t\n" else repr(each)[1:-1] for each in text)


@dataclass(frozen=True)
class Problem:
    """A programming question with a trusted solution. Without one ("") it is evaluated on, or its golden tests choose
    programs that stand in for it.

    `task` says what a solution is: a function or a class, called `entry_point`, or a program that reads standard input,
    which has no entry point.
    `description` is the question without examples, for those who write tests; empty where the question has none.
    `golden_tests` are lines `assert CALL == VALUE`, or `assert CALL == pytest.approx(VALUE, rel=..., abs=...)`; of a
    stream as `golden.stream_line` writes them. `check` is the dataset's own checking code, if it has any; `probe_calls`
    together cover every small input, so agreement with the solution on all of them is an exact score; `mutants` are
    fixed wrong programs; `preamble` is code that the dataset's own scorer puts before every program; `atol` and `rtol`
    are how close a float must come to the solution's in tests that models write; `prompt` is the row's own conversation
    that asks for a program, a list of {role, content} as JSON, or empty; `seconds` is what the problem allows a program
    for one test and `memory_mb` its memory, 0 where it does not say; `checker` is code with
    `check(given, output, expected)`, for a stream with many right outputs (`sandbox.checkers`); `date` is
    the day of publication, such as 2024-08-31, or empty.
    """

    id: str
    question: str
    solution: str
    entry_point: str
    golden_tests: tuple[str, ...] = ()
    check: str = ""
    probe_calls: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()
    preamble: str = ""
    source: str = ""
    atol: float = 0.0
    rtol: float = 0.0
    description: str = ""
    prompt: str = ""
    task: Task = Task.FUNCTION
    seconds: float = 0.0
    memory_mb: float = 0.0
    checker: str = ""
    date: str = ""

    @property
    def called(self) -> str:
        """The function that tests call; "" where they call none."""
        return classes.DRIVER if self.task is Task.CLASS else self.entry_point

    @property
    def signatures(self) -> Mapping[str, nodes.Signature]:
        """Those of the solution's function or methods in which linked lists or trees are (see `sandbox.nodes`).

        None where the dataset's own check calls them, as it likes.
        """
        return {} if self.check else nodes.signatures(self.solution, self.entry_point)

    @property
    def node_classes(self) -> tuple[str, ...]:
        """The classes of lists and trees that these mention."""
        used = {name for signature in self.signatures.values() for name in nodes.classes_in(signature)}
        return tuple(sorted(used))

    @property
    def above(self) -> str:
        """The preamble, with what else the solution has above it where it runs."""
        return with_lines(self.preamble, self._given)

    @property
    def _given(self) -> tuple[str, ...]:
        return (nodes.GIVEN,) if self.signatures else ()

    @property
    def driver(self) -> str:
        """What the judge needs behind a program to call it."""
        if self.task is Task.CLASS:
            return classes.driver(self.entry_point, self.signatures)
        signature = self.signatures.get(self.entry_point)
        return nodes.driver(self.entry_point, signature) if signature else ""

    def driven(self, program: str) -> str:
        """A program with what the judge needs to call it."""
        return with_lines(program, self._given) + self.driver

    @property
    def tolerance(self) -> Tolerance:
        """How close a float must come to the solution's; without `atol` and `rtol`, up to the order of its sums."""
        return Tolerance(self.atol, self.rtol) if self.atol or self.rtol else FEW_ULPS

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
    """What was read from one source: every row is among the problems or among the refused.

    dropped: tests that were left out of problems, by the problem's id, each with the reason.
    """

    problems: tuple[Problem, ...]
    refused: tuple[Refusal, ...] = ()
    dropped: tuple[Refusal, ...] = ()

    def refusing(self, reasons: Mapping[str, str]) -> "Loaded":
        """The same with the problems of these ids among the refused."""
        return Loaded(
            tuple(problem for problem in self.problems if problem.id not in reasons),
            self.refused + tuple(Refusal(name, reason) for name, reason in reasons.items()),
            tuple(test for test in self.dropped if test.id not in reasons),
        )
