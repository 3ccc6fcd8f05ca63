"""UnLeakedTestBench (arXiv 2508.00408): in each of five rounds one more test is asked for a function that is shown.

A round's test is the first of the response, in the suite language, whose call is not that of an earlier round; a round
without one counts as a wrong test. `official` has the benchmark's own form of a test instead.

pass@5 is the share of correct tests among the five, over all functions of the data: those that cannot be judged have
none. mut@5 is the share of mutants that the correct tests kill, over functions with a correct test; `mut_at_5_all` is
over all functions. Both are ours: the benchmark's scripts and the paper's authors (`paper`) count a function only if
all its tests pass. Mul is pass@5 · mut@5 / 100; coverage that of all five tests, right or wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from codea1_jax.evals.answers.requests import next_test_request
from codea1_jax.evals.scores.coverage import PendingCoverage
from codea1_jax.evals.scores.metrics import Estimate, estimate, estimate_mul, estimate_where
from codea1_jax.evals.scores.mutate import Mutant
from codea1_jax.evals.scores.mutation import PendingMutation
from codea1_jax.game.judging import StatedAnswers, submit_calls
from codea1_jax.game.players import Player, SuiteRequest
from data_pipeline import Problem
from sandbox import Judge, SuiteTest, Test, encode_literal, same

ROUNDS = 5

WRONG, CORRECT, NONE = "wrong", "correct", "none"


@dataclass(frozen=True)
class FunctionResult:
    """A function's five tests (empty where a round gave none), how each ended, and what they did together.

    lines, branches: the shares that the tests run, 0 to 1; None where coverage is not measured.
    """

    task_id: str
    tests: tuple[str, ...]
    outcomes: tuple[str, ...]
    mutants: int
    killed: int
    lines: float | None = None
    branches: float | None = None

    @property
    def right(self) -> float:
        """The share of correct tests among the rounds."""
        return self.outcomes.count(CORRECT) / ROUNDS

    @property
    def kill_rate(self) -> float | None:
        """The share of mutants that the correct tests kill; None without mutants."""
        return self.killed / self.mutants if self.mutants else None


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


def answered(judge: Judge, problem: Problem, tests: Sequence[SuiteTest]) -> list[SuiteTest]:
    """The tests with the answers of the problem's own solution, each call once.

    Leaves out calls whose answer cannot be written as a literal: they raise, or
    return nothing plain, a nan or a very long value.
    Raises SandboxError if the judge fails.
    """
    calls = [test.call for test in tests]
    outcomes = submit_calls(judge, problem.preamble + problem.solution, calls, problem.entry_point).result().by_call
    values = {call: outcome.value for call, outcome in outcomes.items()}
    return [SuiteTest(call, v) for call, v in values.items() if v is not None and encode_literal(v) == v]


def holding(judge: Judge, problem: Problem, tests: Sequence[SuiteTest]) -> dict[SuiteTest, Test]:
    """Those tests whose stated answer the problem's own solution gives. Raises SandboxError if the judge fails."""
    function = problem.preamble + problem.solution
    answers = submit_calls(judge, function, [test.call for test in tests], problem.entry_point)
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
        self._coverage = PendingCoverage(judge, problem.solution, [test.call for test in given], problem.preamble)
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


def metrics_of(results: Sequence[FunctionResult], unjudged: int = 0) -> dict[str, Estimate]:
    """The figures in percent; nothing of no results. `unjudged` functions have no correct test and kill no mutant.

    Functions without mutants count for no mut@5 and no Mul.
    """
    if not results:
        return {}
    absent = [0.0] * unjudged
    right = [result.right for result in results]
    killed = [result.kill_rate for result in results]
    by_tests = [rate if share else None for share, rate in zip(right, killed, strict=True)]
    found = {"pass_at_5": estimate([*right, *absent])}
    if any(rate is not None for rate in killed):
        found |= {
            "mut_at_5": estimate_where([*by_tests, *[None] * unjudged]),
            "mul": estimate_mul([*right, *absent], [*by_tests, *[None] * unjudged]),
            "mut_at_5_all": estimate_where([*killed, *absent]),
        }
    if unjudged:
        found |= {"pass_at_5_sound": estimate(right)}
    covered = [(result.lines, result.branches) for result in results]
    lines, branches = [line for line, _ in covered if line is not None], [b for _, b in covered if b is not None]
    return found | ({"line_coverage": estimate(lines), "branch_coverage": estimate(branches)} if lines else {})
