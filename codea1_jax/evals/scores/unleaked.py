"""UnLeakedTestBench (arXiv 2508.00408): in each of five rounds one more test is asked for a function that is shown.

A round's test is the first of the response, in the suite language, whose call is not that of an earlier round; a round
without one counts as a wrong test. Over functions: pass@5 is the share of correct tests among the five; mut@5 that of
the mutants which the correct ones kill; Mul their product; coverage that of all five, right or wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from codea1_jax.evals.answers.requests import next_test_request
from codea1_jax.evals.scores.coverage import PendingCoverage
from codea1_jax.evals.scores.metrics import Estimate, estimate, estimate_mul
from codea1_jax.evals.scores.mutate import Mutant
from codea1_jax.evals.scores.mutation import PendingMutation
from codea1_jax.game.judging import StatedAnswers, submit_calls
from codea1_jax.game.players import Player, SuiteRequest
from data_pipeline import Problem
from sandbox import Judge, SuiteTest, Test, same

ROUNDS = 5

WRONG, CORRECT, NONE = "wrong", "correct", "none"


@dataclass(frozen=True)
class FunctionResult:
    """A function's five tests (empty where a round gave none), how each ended, and what they did together."""

    task_id: str
    tests: tuple[str, ...]
    outcomes: tuple[str, ...]
    mutants: int
    killed: int
    lines: float
    branches: float

    @property
    def right(self) -> float:
        """The share of correct tests among the rounds."""
        return self.outcomes.count(CORRECT) / ROUNDS


def requests_for_round(written: Mapping[Problem, Sequence[SuiteTest | None]], round_: int) -> list[SuiteRequest]:
    """What is asked in a round (from 0), for the functions that have not had it."""
    return [
        next_test_request(problem, [spelled(test) for test in tests if test], round_)
        for problem, tests in written.items()
        if len(tests) == round_
    ]


def choose(tests: Iterable[SuiteTest], before: Iterable[SuiteTest | None]) -> SuiteTest | None:
    """The first test whose call is new."""
    known = {test.call for test in before if test}
    return next((test for test in tests if test.call not in known), None)


def play_round(
    player: Player, written: Mapping[Problem, Sequence[SuiteTest | None]], round_: int
) -> Iterator[tuple[Problem, SuiteTest | None]]:
    """One round: yields a function and its test, or None, as soon as it is written."""
    requests = requests_for_round(written, round_)
    for i, suites in player.suites(requests):
        problem = requests[i].problem
        yield problem, choose((test for each in suites for test in each.suite.tests), written[problem])


def spelled(test: SuiteTest) -> str:
    """The test as a line of Python."""
    return f"assert {test.call} == {test.stated}"


def score(
    written: Mapping[Problem, Sequence[SuiteTest | None]], mutants: Mapping[Problem, Sequence[Mutant]], judge: Judge
) -> Iterator[FunctionResult]:
    """Judges every function's tests; results in order. Raises SandboxError if the judge fails."""
    pending: deque[_Pending] = deque()
    for problem, tests in written.items():
        pending.append(_Pending(judge, problem, tests, mutants[problem]))
        while len(pending) > 2:  # enough to keep the judge busy
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def holding(judge: Judge, problem: Problem, tests: Sequence[SuiteTest]) -> dict[SuiteTest, Test]:
    """Those tests whose stated answer the problem's own solution gives. Raises SandboxError if the judge fails."""
    answers = submit_calls(judge, problem.solution, [test.call for test in tests], problem.entry_point)
    stated = StatedAnswers(judge, [test.stated for test in tests]).result()
    values = {call: outcome.value for call, outcome in answers.result().by_call.items()}
    found = {}
    for test in tests:
        value, answer = values[test.call], stated[test.stated]
        if value is not None and answer is not None and same(value, answer):
            found[test] = Test(test.call, value)
    return found


class _Pending:
    """One function's jobs, already submitted."""

    def __init__(
        self, judge: Judge, problem: Problem, tests: Sequence[SuiteTest | None], mutants: Sequence[Mutant]
    ) -> None:
        self._problem, self._tests = problem, tests
        given = [test for test in tests if test]
        self._coverage = PendingCoverage(judge, problem.solution, [test.call for test in given])
        self._correct = holding(judge, problem, given)
        self._mutation = PendingMutation(judge, problem, mutants, tuple(self._correct.values()))

    def result(self) -> FunctionResult:
        """Waits for the last job."""
        killed, coverage = self._mutation.result(), self._coverage.result()
        return FunctionResult(
            task_id=self._problem.id,
            tests=tuple(spelled(test) if test else "" for test in self._tests),
            outcomes=tuple((CORRECT if t in self._correct else WRONG) if t else NONE for t in self._tests),
            mutants=len(killed),
            killed=sum(killed),
            lines=coverage.lines,
            branches=coverage.branches,
        )


def metrics_of(results: Sequence[FunctionResult]) -> dict[str, Estimate]:
    """pass@5, mut@5, Mul and coverage, in percent; nothing of no results.

    Functions without mutants count for no mut@5 and no Mul.
    """
    if not results:
        return {}
    mutated = [result for result in results if result.mutants]
    killed = [result.killed / result.mutants for result in mutated]
    found = {"pass_at_5": estimate([result.right for result in results])}
    if mutated:
        found |= {"mut_at_5": estimate(killed), "mul": estimate_mul([result.right for result in mutated], killed)}
    return found | {
        "line_coverage": estimate([result.lines for result in results]),
        "branch_coverage": estimate([result.branches for result in results]),
    }
