"""Evaluation on held-out questions while training.

Code: n programs per question, each correct if it agrees with the reference on every probe call (or, for sources
without probes, on the golden tests): avg@n and pass@k.

Tests, in two parts that do not depend on the Code LLM of the day:
- *validity* and *kill rate*: the Test LLM is shown one fixed wrong program of each question. Validity is `val` of the
  test reward; a suite kills if one of its tests that hold (new in the suite, stating the reference's value) fails
  the program shown.
- *pass@5, mut@5, Mul*: the protocol of UnLeakedTestBench. The reference is shown; in each of 5 rounds one suite is
  sampled and its first test whose call is new counts. pass@5 is the share of correct tests among functions × 5;
  mut@5 the share of a question's fixed mutants that the correct ones kill, averaged over questions.

With several hosts, each judges its share of the questions, and all get all metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from codea1_jax.evals.code import count_correct
from codea1_jax.evals.metrics import bounded, estimate, mul, solved, solved_names
from codea1_jax.evals.rounds import ROUNDS, choose
from codea1_jax.game.judging import PendingOutcomes, StatedAnswers, submit_calls
from codea1_jax.game.players import Player, ProgramRequest, SuiteRequest
from codea1_jax.game.rewards import validity
from codea1_jax.game.tasks import task_of
from codea1_jax.game.validation import validate_suite
from codea1_jax.runtime.gather import gathered, is_mine
from data_pipeline import Problem
from data_pipeline.checking import settled, stated_or_expected
from data_pipeline.golden import read_golden_tests
from sandbox import Judge, Outcome, Tolerance, same
from sandbox.language import SuiteTest

logger = logging.getLogger(__name__)

KS = (1, 2, 4, 8, 16, 32)  # of pass@k, up to the number of samples


@dataclass(frozen=True)
class HeldOut:
    """Held-out problems, each with what its reference answers to the scored calls."""

    answers: Mapping[Problem, Mapping[str, str]]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems, in order."""
        return tuple(self.answers)


def prepare(problems: Sequence[Problem], judge: Judge) -> HeldOut:
    """Runs every reference once. Calls that give no plain value under the reference do not count.

    A question without a call that counts cannot be scored: it is left out, with a warning.
    """
    pending = [(p, submit_calls(judge, p, p.driven(p.solution), _scored_calls(p))) for p in problems]
    answers = {problem: _values(reference.result().by_call) for problem, reference in pending}
    for problem, values in answers.items():
        if not values:
            logger.warning("held-out question %s has no call that can be scored; it is left out", problem.id)
    return HeldOut({problem: values for problem, values in answers.items() if values})


def code_metrics(samples: int) -> tuple[str, ...]:
    """The names of what `evaluate_code` gives, intervals left out."""
    return tuple(f"eval/{name}" for name in solved_names(samples, KS))


def suite_metrics(heldout: HeldOut) -> tuple[str, ...]:
    """The names of what `evaluate_tests` gives, intervals left out."""
    by_mutants = ("eval/kill_rate", "eval/mut_at_5", "eval/mul") if any(p.mutants for p in heldout.problems) else ()
    return ("eval/test_validity", "eval/pass_at_5", *by_mutants)


def evaluate_code(
    player: Player, judge: Judge, heldout: HeldOut, samples: int, stream: tuple[int, ...]
) -> dict[str, float]:
    """avg@n and pass@k for k = 1, 2, 4, ... n, in percent, each with its interval over the questions."""
    requests = [ProgramRequest(p, samples, (*stream, 0, i)) for i, p in enumerate(heldout.answers)]

    def submit(i: int, program: str) -> Callable[[], bool]:
        problem = requests[i].problem
        answers = heldout.answers[problem]
        pending = submit_calls(judge, problem, task_of(problem).judged(program, problem), answers)
        tolerances = {test.call: test.tolerance for test in read_golden_tests(problem)}

        def agrees() -> bool:
            outcomes = settled(judge, problem, pending.result().by_call, answers)
            return all(
                _matches(tolerances.get(call, problem.tolerance), outcomes[call], value)
                for call, value in answers.items()
            )

        return agrees

    return bounded("eval", solved(count_correct(player, requests, submit), KS))


def evaluate_tests(
    player: Player, judge: Judge, heldout: HeldOut, suites: int, suite_size: int, stream: tuple[int, ...]
) -> dict[str, float]:
    """Validity, kill rate, pass@5, mut@5 and Mul, in percent; `suites` are sampled per question for the first two.

    Each but Mul has its interval over the questions. Questions without mutants are shown with their reference and count
    for validity and pass@5 only.
    """
    return {
        **_hunt(player, judge, heldout.problems, suites, suite_size, (*stream, 1)),
        **_five_rounds(player, judge, heldout.problems, (*stream, 2)),
    }


def _hunt(
    player: Player, judge: Judge, problems: Sequence[Problem], suites: int, suite_size: int, stream: tuple[int, ...]
) -> dict[str, float]:
    """Suites against one wrong program of each question, a different one from question to question."""
    targets = [i % len(p.mutants) if p.mutants else None for i, p in enumerate(problems)]
    shown = [p.solution if t is None else p.mutants[t] for p, t in zip(problems, targets, strict=True)]
    written = _sample(player, problems, shown, suites, stream)
    truths = _truths(judge, problems, [[t for suite in hunt for t in suite] for hunt in written])
    valid, kills = [], []
    for truth, hunt, target in zip(truths, written, targets, strict=True):
        valid.append(fmean(truth.validity(suite, suite_size) for suite in hunt))  # as many suites for each question
        if target is not None:
            kills.append(fmean(truth.kills(filter(truth.holds, suite), target) for suite in hunt))
    kill_rate = {"kill_rate": estimate(kills)} if kills else {}
    return bounded("eval", {"test_validity": estimate(valid)} | kill_rate)


def _five_rounds(
    player: Player, judge: Judge, problems: Sequence[Problem], stream: tuple[int, ...]
) -> dict[str, float]:
    """pass@5 and mut@5: the reference is shown, and each of the rounds gives at most one new test."""
    written = _sample(player, problems, [p.solution for p in problems], ROUNDS, stream)
    fives = [_one_per_round(rounds) for rounds in written]
    truths = _truths(judge, problems, fives)
    right, killed = [], []
    for problem, truth, five in zip(problems, truths, fives, strict=True):
        good = [t for t in five if truth.holds(t)]
        right.append(len(good) / ROUNDS)
        if problem.mutants:
            killed.append(fmean(truth.kills(good, m) for m in range(len(problem.mutants))))
    pass_at_5 = estimate(right)
    if not killed:
        return bounded("eval", {"pass_at_5": pass_at_5})
    mut_at_5 = estimate(killed)
    metrics = bounded("eval", {"pass_at_5": pass_at_5, "mut_at_5": mut_at_5})
    return metrics | {"eval/mul": mul(pass_at_5.value, mut_at_5.value)}


def _sample(
    player: Player, problems: Sequence[Problem], shown: Sequence[str], suites: int, stream: tuple[int, ...]
) -> list[list[tuple[SuiteTest, ...]]]:
    """For every problem, the tests of `suites` suites written against the program shown."""
    requests = [
        SuiteRequest(p, program, suites, (*stream, i))
        for i, (p, program) in enumerate(zip(problems, shown, strict=True))
    ]
    written: list[list[tuple[SuiteTest, ...]]] = [[] for _ in problems]
    for i, suites_written in player.suites(requests):
        written[i] = [each.suite.tests for each in suites_written]
    return written


@dataclass(frozen=True)
class _Truth:
    """What a problem's reference and mutants answer to the calls of some tests, and the tests' stated answers."""

    problem: Problem
    reference: Mapping[str, Outcome]
    mutants: tuple[Mapping[str, Outcome], ...]
    stated: Mapping[SuiteTest, str | None]

    def validity(self, suite: Sequence[SuiteTest], suite_size: int) -> float:
        """`val` of the test reward."""
        calls = [t.call for t in suite]
        reference = [self.reference[call] for call in calls]
        stated, tolerance = [self.stated[t] for t in suite], self.problem.tolerance
        validated = validate_suite(calls, reference, stated, tolerance=tolerance, view=task_of(self.problem).view)
        return validity(len(validated.kept), validated.invalid, suite_size)

    def holds(self, test: SuiteTest) -> bool:
        """Whether the stated answer is the reference's."""
        stated, outcome = self.stated[test], self.reference[test.call]
        return stated is not None and outcome.value is not None and self.problem.tolerance.same(stated, outcome.value)

    def kills(self, tests: Iterable[SuiteTest], mutant: int) -> bool:
        """Whether one of these tests, which hold, fails a mutant."""
        tolerance, answers = self.problem.tolerance, self.mutants[mutant]
        return any(not _matches(tolerance, answers[t.call], self.reference[t.call].value) for t in tests)


def _truths(judge: Judge, problems: Sequence[Problem], tests: Sequence[Sequence[SuiteTest]]) -> list[_Truth]:
    def find() -> dict[int, _Truth]:
        pending = {}
        for i, (problem, own) in enumerate(zip(problems, tests, strict=True)):
            if is_mine(i):
                calls = tuple(dict.fromkeys(t.call for t in own))
                reference = submit_calls(judge, problem, problem.driven(problem.solution), calls, is_reference=True)
                mutants = [submit_calls(judge, problem, problem.driven(mutant), calls) for mutant in problem.mutants]
                pending[i] = reference, mutants, StatedAnswers(judge, problem.task, [t.stated for t in own])
        return {i: _truth(judge, problems[i], tests[i], *found) for i, found in pending.items()}

    return list(gathered(find).values())


def _truth(
    judge: Judge,
    problem: Problem,
    tests: Sequence[SuiteTest],
    reference: PendingOutcomes,
    mutants: Sequence[PendingOutcomes],
    stated: StatedAnswers,
) -> _Truth:
    """Waits for what was submitted; where the problem has a checker, it decides what is right."""
    known, answers = reference.result().by_call, stated.result()
    expected = _values(known)
    of_tests = [answers[test.stated] for test in tests], [known[test.call] for test in tests]
    right = stated_or_expected(judge, problem, tests, *of_tests)
    return _Truth(
        problem,
        known,
        tuple(settled(judge, problem, mutant.result().by_call, expected) for mutant in mutants),
        dict(zip(tests, right, strict=True)),
    )


def _one_per_round(rounds: Sequence[Sequence[SuiteTest]]) -> list[SuiteTest]:
    chosen: list[SuiteTest] = []
    for suite in rounds:
        if test := choose(suite, chosen):
            chosen.append(test)
    return chosen


def _scored_calls(problem: Problem) -> tuple[str, ...]:
    if problem.probe_calls:
        return problem.probe_calls
    return tuple(dict.fromkeys(t.call for t in read_golden_tests(problem)))


def _values(reference: Mapping[str, Outcome]) -> dict[str, str]:
    values = {call: o.value for call, o in reference.items() if o.value is not None}
    return {call: value for call, value in values.items() if same(value, value)}


def _matches(tolerance: Tolerance, outcome: Outcome, value: str | None) -> bool:
    return outcome.value is not None and value is not None and tolerance.same(outcome.value, value)
