"""Samples that others have written, as a player: from files of the form that evalplus and bigcodebench write and read.

A line is a JSON object with `task_id` and either `solution`, a whole program, or `completion`, which continues the
question; for tests, `tests`, a list of them. Case does not distinguish task ids: MBPP/2 is evalplus' Mbpp/2.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from codea1_jax.common.errors import UserError
from codea1_jax.evals.journal import Journal
from codea1_jax.game.players import AnyRequest, ConversationRequest, Player, ProgramRequest, SuiteRequest
from codea1_jax.game.rollouts import Candidate, Response, WrittenSuite
from codea1_jax.game.suites import Suite
from codea1_jax.game.tasks import task_of
from data_pipeline import Problem
from data_pipeline.golden import plain_golden_tests
from data_pipeline.rows import BadRow, Row, read_rows, text, texts

RESPONSES_FILE = "responses.jsonl"

T = TypeVar("T", bound=tuple[Any, ...])


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


class JournaledPlayer:
    """A player whose responses are all written to a journal, as they are read, with how they ended.

    figures: how much was drawn, and in what time, compiling included.
    """

    def __init__(self, player: Player, journal: Journal) -> None:
        self._player, self._journal = player, journal
        journal.lines(RESPONSES_FILE)  # takes off a last line that was cut short
        self._seconds, self._tokens, self._responses, self._cut = 0.0, 0, 0, 0

    @property
    def figures(self) -> dict[str, float]:
        if not self._tokens:
            return {"responses": self._responses}
        return {
            "responses": self._responses,
            "cut_off": self._cut,
            "tokens": self._tokens,
            "seconds": round(self._seconds, 1),
            "tokens_per_second": round(self._tokens / self._seconds, 2),
        }

    def programs(self, requests: Sequence[ProgramRequest]) -> Iterator[tuple[int, tuple[Candidate, ...]]]:
        return self._written_down(requests, self._player.programs(requests), attrgetter("response"))

    def suites(self, requests: Sequence[SuiteRequest]) -> Iterator[tuple[int, tuple[WrittenSuite, ...]]]:
        return self._written_down(requests, self._player.suites(requests), attrgetter("response"))

    def test_functions(self, requests: Sequence[ConversationRequest]) -> Iterator[tuple[int, tuple[Response, ...]]]:
        return self._written_down(requests, self._player.test_functions(requests), lambda response: response)

    def _written_down(
        self, requests: Sequence[AnyRequest], written: Iterator[tuple[int, T]], response_of: Callable[[Any], Response]
    ) -> Iterator[tuple[int, T]]:
        while True:
            began = time.perf_counter()
            each = next(written, None)
            self._seconds += time.perf_counter() - began
            if each is None:
                return
            index, samples = each
            lines = [self._line(requests[index].problem, response_of(sample)) for sample in samples]
            self._journal.add(RESPONSES_FILE, lines)
            yield each

    def _line(self, problem: Problem, response: Response) -> dict[str, Any]:
        self._responses += 1
        line: dict[str, Any] = {"task_id": problem.id, "response": response.text}
        if (drawn := response.completion) is not None:
            self._tokens += len(drawn.tokens)
            self._cut += not drawn.finished
            line |= {"finish": "stop" if drawn.finished else "length", "tokens": len(drawn.tokens)}
        return line


def _suite(texts: Sequence[str], request: SuiteRequest) -> WrittenSuite:
    """A suite of these texts, each read by itself: one that does not parse costs no other."""
    suites = [task_of(request.problem).suite_in(text, request.problem, request.rules) for text in texts]
    tests = tuple(test for each in suites for test in each.tests)
    rejected = tuple(rejected for each in suites for rejected in each.rejected)
    return WrittenSuite(Response("\n".join(texts)), Suite(tests, rejected))


# How a file is read for problems: what it records, and its tasks that are not among them.
ReadSamples = Callable[[str, Sequence[Problem]], tuple[RecordedPlayer, tuple[str, ...]]]


def read_programs(path: str | Path, problems: Sequence[Problem]) -> tuple[RecordedPlayer, tuple[str, ...]]:
    """A file's programs, and its tasks without a problem. Raises ValueError for the first line that is not a sample."""
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
