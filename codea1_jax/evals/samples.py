"""Samples that others have written, as a player: from files of the form that evalplus and bigcodebench write and read.

A line is a JSON object with `task_id` and either `solution`, a whole program, or `completion`, which continues the
question; for tests, `tests`, a list of them. Case does not distinguish task ids: MBPP/2 is evalplus' Mbpp/2.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codea1_jax.common.errors import UserError
from codea1_jax.game.players import ConversationRequest, ProgramRequest, SuiteRequest
from codea1_jax.game.rollouts import Candidate, Response, WrittenSuite
from codea1_jax.game.suites import Suite
from codea1_jax.game.tasks import task_of
from data_pipeline import Problem
from data_pipeline.golden import plain_golden_tests
from data_pipeline.rows import BadRow, Row, read_rows, text, texts


@dataclass(frozen=True)
class RecordedPlayer:
    """Samples by problem id, however many are requested. A problem without any gets none.

    The n-th test of a record answers the n-th request for a test function; where there is none, the response is empty.
    A request for several suites gets the tests dealt out to them; one suite has them all.
    """

    programs_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tests_of: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def programs(self, requests: Sequence[ProgramRequest]) -> Iterator[tuple[int, tuple[Candidate, ...]]]:
        """The recorded programs as they are: they are not extracted from responses."""
        for i, request in enumerate(requests):
            recorded = self.programs_of.get(request.problem.id, ())
            yield i, tuple(Candidate(Response(program), program) for program in recorded)

    def suites(self, requests: Sequence[SuiteRequest]) -> Iterator[tuple[int, tuple[WrittenSuite, ...]]]:
        for i, request in enumerate(requests):
            recorded = self.tests_of.get(request.problem.id, ())
            yield i, tuple(_suite(recorded[n :: request.samples], request) for n in range(request.samples))

    def test_functions(self, requests: Sequence[ConversationRequest]) -> Iterator[tuple[int, tuple[Response, ...]]]:
        """The next recorded text of each problem."""
        for i, request in enumerate(requests):
            recorded = self.tests_of.get(request.problem.id, ())
            (text,) = recorded[len(request.earlier) : len(request.earlier) + 1] or ("",)
            yield i, (Response(text),)


def _suite(texts: Sequence[str], request: SuiteRequest) -> WrittenSuite:
    """A suite of these texts, each read by itself: one that does not parse costs no other."""
    suites = [task_of(request.problem).suite_in(text, request.problem, request.rules) for text in texts]
    tests = tuple(test for each in suites for test in each.tests)
    rejected = tuple(rejected for each in suites for rejected in each.rejected)
    return WrittenSuite(Response("\n".join(texts)), Suite(tests, rejected))


# How a file is read for problems: what it records, and its tasks that are not among them.
ReadSamples = Callable[[str, Sequence[Problem]], tuple[RecordedPlayer, tuple[str, ...]]]


def read_programs(path: str | Path, problems: Sequence[Problem]) -> tuple[RecordedPlayer, tuple[str, ...]]:
    """The programs of a file, and its tasks that are not among the problems.

    Raises ValueError naming the first line that is not a sample.
    """
    programs, unknown = _read(path, problems, _programs)
    return RecordedPlayer(programs_of=programs), unknown


def read_tests(path: str | Path, problems: Sequence[Problem]) -> tuple[RecordedPlayer, tuple[str, ...]]:
    """The tests of a file, as `read_programs`."""
    tests, unknown = _read(path, problems, lambda row, problem: texts(row, "tests"))
    return RecordedPlayer(tests_of=tests), unknown


def references(problems: Sequence[Problem]) -> RecordedPlayer:
    return RecordedPlayer(
        programs_of={problem.id: (problem.solution,) for problem in problems},
        tests_of={problem.id: _tests(problem) for problem in problems},
    )


def _tests(problem: Problem) -> tuple[str, ...]:
    if problem.source != "ult":
        return plain_golden_tests(problem)
    return tuple(f"def test():\n    {line}" for line in problem.check.splitlines())


def sample_line(problem: Problem, program: str) -> dict[str, Any]:
    """A program as a line of a samples file, by evalplus' name of the problem."""
    return {"task_id": problem.id.replace("MBPP/", "Mbpp/"), "solution": program}


def _programs(row: Row, problem: Problem) -> tuple[str, ...]:
    if isinstance(row.get("solution"), str):
        return (row["solution"],)
    if isinstance(row.get("completion"), str):
        return (problem.question + row["completion"],)
    raise BadRow("no solution or completion")


def _read(
    path: str | Path, problems: Sequence[Problem], read: Callable[[Row, Problem], tuple[str, ...]]
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    by_id = {problem.id.lower(): problem for problem in problems}
    samples: dict[str, list[str]] = {}
    unknown: dict[str, None] = {}
    for number, row in enumerate(read_rows(path), start=1):
        try:
            if isinstance(row, BadRow):
                raise row
            task = text(row, "task_id")
            problem = by_id.get(task.lower())
            if problem is None:
                unknown[task] = None
            else:
                samples.setdefault(problem.id, []).extend(read(row, problem))
        except BadRow as error:
            raise UserError(f"{path}, line {number}: {error}") from None
    return {name: tuple(each) for name, each in samples.items()}, tuple(unknown)
