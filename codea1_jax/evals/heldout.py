"""Evaluation on held-out questions while training; docs/metrics.md defines each figure.

Code: n programs per question, each correct if it agrees with the reference on every probe call (or, for sources
without probes, on the golden tests).

Tests, in two parts that do not depend on the Code LLM of the day. The Test LLM is shown one fixed wrong program of each
question: *validity* is `val` of the test reward, and a suite *kills* if one of its tests that hold (new in the suite,
stating the reference's value) fails the program shown. And it is shown the reference, after UnLeakedTestBench, whose
own protocol is `paper`: in each of 5 rounds the first test of a suite whose call is new counts for pass@5 and mut@5.

With several hosts, each judges its share of the questions, and all get all metrics.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from codea1_jax.config.run import ROUNDS
from codea1_jax.evals.code import count_correct
from codea1_jax.evals.metrics import Estimate, bounded, estimate, mul, solved
from codea1_jax.game.judging import PendingOutcomes, submit_calls
from codea1_jax.game.players import Player, ProgramRequest, SuiteRequest
from codea1_jax.game.rewards import validity
from codea1_jax.game.tasks import task_of
from codea1_jax.game.validation import validate_suite
from codea1_jax.runtime.gather import gathered, is_mine
from data_pipeline import Problem
from data_pipeline.golden import read_golden_tests
from data_pipeline.verdicts import StatedAnswers, stated_or_expected, tolerance_of
from sandbox import Judge, Outcome, Tolerance, same
from sandbox.language import SuiteTest

logger = logging.getLogger(__name__)

KS = (1, 2, 4, 8, 16, 32)  # of pass@k, up to the number of samples
HARD = 0.1  # of the scored calls expose a hard mutant, at most


@dataclass(frozen=True)
class HeldOut:
    """Held-out problems: what the reference of each answers to the scored calls, and which mutants are hard."""

    answers: Mapping[Problem, Mapping[str, str]]
    hard: Mapping[Problem, tuple[int, ...]]

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(self.answers)


@dataclass(frozen=True)
class ReferenceOutcomes:
    """What the reference and mutants gave, by the call's text, and what tests state, or the checker has for it."""

    problem: Problem
    reference: Mapping[str, Outcome]
    mutants: tuple[Mapping[str, Outcome], ...]
    stated: Mapping[SuiteTest, str | None]

    def validity(self, suite: Sequence[SuiteTest], suite_size: int) -> float:
        calls = [t.call for t in suite]
        reference = [self.reference[call] for call in calls]
        stated, tolerance = [self.stated[t] for t in suite], self.problem.tolerance
        validated = validate_suite(calls, reference, stated, tolerance=tolerance, view=task_of(self.problem).view)
        return validity(len(validated.kept), validated.invalid, suite_size)

    def holds(self, test: SuiteTest) -> bool:
        stated, outcome = self.stated[test], self.reference[test.call]
        return stated is not None and outcome.value is not None and self.problem.tolerance.same(stated, outcome.value)

    def lines(self) -> list[dict[str, Any]]:
        """Each test: what it states, and what the reference returned or, without a value, why there is none."""
        known = [(t, self.reference[t.call]) for t in self.stated]
        return [
            {"task_id": self.problem.id, "call": t.call, "stated": t.stated, "right": self.holds(t)}
            | {"status": ended.status, "returned": ended.value, "detail": ended.detail}
            for t, ended in known
        ]

    def kills(self, test: SuiteTest, mutant: int) -> bool:
        """Whether a test, which holds, fails a mutant."""
        return not _matches(self.problem.tolerance, self.mutants[mutant][test.call], self.reference[test.call].value)


def prepare(problems: Sequence[Problem], judge: Judge) -> HeldOut:
    """Runs every reference and its mutants once. Calls that give no plain value under the reference do not count.

    A question without a call that counts cannot be scored: it is left out, with a warning.
    """

    def find() -> dict[int, tuple[dict[str, str], tuple[int, ...]]]:
        pending = {}
        for i in filter(is_mine, range(len(problems))):
            problem, calls = problems[i], _scored_calls(problems[i])
            programs = (problem.solution, *problem.mutants)
            pending[i] = [submit_calls(judge, problem, program, calls) for program in programs]
        return {i: _scored(problems[i], *runs) for i, runs in pending.items()}

    scored = {problems[i]: found for i, found in gathered(find).items()}
    for problem, (values, _) in scored.items():
        if not values:
            logger.warning("held-out question %s has no call that can be scored; it is left out", problem.id)
    known = {problem: found for problem, found in scored.items() if found[0]}
    return HeldOut({p: values for p, (values, _) in known.items()}, {p: hard for p, (_, hard) in known.items()})


def _scored(
    problem: Problem, reference: PendingOutcomes, *mutants: PendingOutcomes
) -> tuple[dict[str, str], tuple[int, ...]]:
    answers = _values(reference.result().by_call)
    exposing = [_wrong(problem, mutant, answers) for mutant in mutants]
    return answers, tuple(i for i, count in enumerate(exposing) if 0 < count <= HARD * len(answers))


def evaluate_programs(
    player: Player, judge: Judge, heldout: HeldOut, samples: int, stream: tuple[int, ...]
) -> dict[str, float]:
    """avg@n and pass@k for k = 1, 2, 4, ... n, in percent, each with its interval over the questions."""
    requests = [ProgramRequest(p, samples, (*stream, 0, i)) for i, p in enumerate(heldout.answers)]

    def submit(i: int, program: str) -> Callable[[], bool]:
        problem = requests[i].problem
        answers = heldout.answers[problem]
        pending = submit_calls(judge, problem, program, answers)
        return lambda: not _wrong(problem, pending, answers)

    return bounded("eval", solved(count_correct(player, requests, submit), KS))


def evaluate_tests(
    player: Player, judge: Judge, heldout: HeldOut, suites: int, suite_size: int, stream: tuple[int, ...]
) -> tuple[dict[str, float], list[ReferenceOutcomes]]:
    """The figures of tests, in percent, and all tests as they were judged, question by question.

    `suites` are sampled per question for the figures that the five rounds do not give.

    Each but Mul and trivial_tests has its interval over the questions. Questions without mutants are shown with their
    reference and count for validity, distinct_tests and pass@5 only.
    """
    figures, judged = _score_against_mutant(player, judge, heldout.problems, suites, suite_size, (*stream, 1))
    of_rounds, judged_rounds = _five_rounds(player, judge, heldout, (*stream, 2))
    return figures | of_rounds, [*judged, *judged_rounds]


def _score_against_mutant(
    player: Player, judge: Judge, problems: Sequence[Problem], suites: int, suite_size: int, stream: tuple[int, ...]
) -> tuple[dict[str, float], list[ReferenceOutcomes]]:
    targets = [i % len(p.mutants) if p.mutants else None for i, p in enumerate(problems)]
    shown = [p.solution if t is None else p.mutants[t] for p, t in zip(problems, targets, strict=True)]
    written = _sample(player, problems, shown, suites, stream)
    outcomes = _reference_outcomes(judge, problems, [[t for suite in hunt for t in suite] for hunt in written])
    valid, kills, distinct = [], [], []
    for known, hunt, target in zip(outcomes, written, targets, strict=True):
        valid.append(fmean(known.validity(suite, suite_size) for suite in hunt))  # as many suites for each question
        calls = [t.call for suite in hunt for t in suite]
        distinct.append(len(set(calls)) / len(calls) if calls else None)
        if target is not None:
            kills.append(fmean(any(known.kills(t, target) for t in suite if known.holds(t)) for suite in hunt))
    return bounded("eval", _estimates(test_validity=valid, kill_rate=kills, distinct_tests=distinct)), outcomes


def _five_rounds(
    player: Player, judge: Judge, heldout: HeldOut, stream: tuple[int, ...]
) -> tuple[dict[str, float], list[ReferenceOutcomes]]:
    """pass@5 and mut@5: the reference is shown, and each of the rounds gives at most one new test."""
    problems = heldout.problems
    written = _sample(player, problems, [p.solution for p in problems], ROUNDS, stream)
    fives = [_one_per_round(rounds) for rounds in written]
    outcomes = _reference_outcomes(judge, problems, fives)
    right, killed, killed_hard, trivial = [], [], [], []
    for problem, known, five in zip(problems, outcomes, fives, strict=True):
        good = [t for t in five if known.holds(t)]
        right.append(len(good) / ROUNDS)
        kills = [[known.kills(t, m) for t in good] for m in range(len(problem.mutants))]
        if kills:
            killed.append(fmean(map(any, kills)))
            trivial += [not any(of_test) for of_test in zip(*kills, strict=True)]
        if hard := heldout.hard[problem]:
            killed_hard.append(fmean(any(kills[m]) for m in hard))
    estimates = _estimates(pass_at_5=right, mut_at_5=killed, hard_mut_at_5=killed_hard)
    metrics = bounded("eval", estimates)
    if killed:
        metrics["eval/mul"] = mul(estimates["pass_at_5"].value, estimates["mut_at_5"].value)
    if trivial:
        metrics["eval/trivial_tests"] = 100 * fmean(trivial)
    return metrics, outcomes


def _estimates(**shares: Sequence[float | None]) -> dict[str, Estimate]:
    return {name: estimate(of) for name, of in shares.items() if any(share is not None for share in of)}


def _sample(
    player: Player, problems: Sequence[Problem], shown: Sequence[str], suites: int, stream: tuple[int, ...]
) -> list[list[tuple[SuiteTest, ...]]]:
    requests = [
        SuiteRequest(p, program, suites, (*stream, i))
        for i, (p, program) in enumerate(zip(problems, shown, strict=True))
    ]
    written: list[list[tuple[SuiteTest, ...]]] = [[] for _ in problems]
    for i, suites_written in player.suites(requests):
        written[i] = [each.suite.tests for each in suites_written]
    return written


def _reference_outcomes(
    judge: Judge, problems: Sequence[Problem], tests: Sequence[Sequence[SuiteTest]]
) -> list[ReferenceOutcomes]:
    def find() -> dict[int, ReferenceOutcomes]:
        mine = filter(is_mine, range(len(problems)))
        pending = {i: submit_outcomes(judge, problems[i], tests[i], problems[i].mutants) for i in mine}
        return {i: outcomes() for i, outcomes in pending.items()}

    return list(gathered(find).values())


def submit_outcomes(
    judge: Judge, problem: Problem, tests: Sequence[SuiteTest], mutants: Sequence[str] = ()
) -> Callable[[], ReferenceOutcomes]:
    """Submits all calls; what is returned waits for them. The problem's checker, if any, decides what is right."""
    calls = tuple(dict.fromkeys(test.call for test in tests))
    reference = submit_calls(judge, problem, problem.solution, calls, is_reference=True)
    pending = [submit_calls(judge, problem, mutant, calls) for mutant in mutants]
    stated = StatedAnswers(judge, problem, [test.stated for test in tests])

    def result() -> ReferenceOutcomes:
        known, answers = reference.result().by_call, stated.result()
        expected = _values(known)
        of_tests = [answers[test.stated] for test in tests], [known[test.call] for test in tests]
        right = dict(zip(tests, stated_or_expected(judge, problem, tests, *of_tests), strict=True))
        checked = tuple(mutant.result(expected).by_call for mutant in pending)
        return ReferenceOutcomes(problem, known, checked, right)

    return result


def _one_per_round(rounds: Sequence[Sequence[SuiteTest]]) -> list[SuiteTest]:
    chosen: dict[str, SuiteTest] = {}
    for suite in rounds:
        chosen |= next(({test.call: test} for test in suite if test.call not in chosen), {})
    return [*chosen.values()]


def _scored_calls(problem: Problem) -> tuple[str, ...]:
    if problem.probe_calls:
        return problem.probe_calls
    return tuple(dict.fromkeys(t.call for t in read_golden_tests(problem)))


def _values(reference: Mapping[str, Outcome]) -> dict[str, str]:
    values = {call: o.value for call, o in reference.items() if o.value is not None}
    return {call: value for call, value in values.items() if same(value, value)}


def _wrong(problem: Problem, program: PendingOutcomes, answers: Mapping[str, str]) -> int:
    tolerances = {test.call: tolerance_of(problem, test) for test in read_golden_tests(problem)}
    outcomes = program.result(answers).by_call
    return sum(
        not _matches(tolerances.get(call, problem.tolerance), outcomes[call], value) for call, value in answers.items()
    )


def _matches(tolerance: Tolerance, outcome: Outcome, value: str | None) -> bool:
    return outcome.value is not None and value is not None and tolerance.same(outcome.value, value)
