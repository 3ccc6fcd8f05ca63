"""From one question's judgement to its rewards, advantages and new page of the mistake book. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from codea1_jax.config import RewardConfig
from codea1_jax.game.judging import Judgement, JudgingConfig, ProgramOutcomes
from codea1_jax.game.mistake_book import updated
from codea1_jax.game.rewards import (
    PAPER_REWARDS,
    BookScore,
    JudgedProgram,
    JudgedSuite,
    RewardFunctions,
    SuiteReward,
    SuiteScore,
    checked_reward,
    code_reward,
    suite_reward,
)
from codea1_jax.game.rollouts import Candidate, Page, ProgramRollout, QuestionRollout, SuiteRollout
from codea1_jax.game.selection import most_contested
from codea1_jax.learn.advantages import group_advantages
from data_pipeline import Problem
from sandbox import Test, Verdict, verdict_on


@dataclass(frozen=True)
class ScoringConfig:
    """How a question is scored.

    update_n: how many candidates' suites are learned from. answer_prediction: a test's stated answer counts; else the
    reference fills in every answer, and no test is invalid for a wrong one. functions: rewards instead of the paper's.
    script_seconds, reference_names: as in `JudgingConfig`.
    """

    rewards: RewardConfig
    update_n: int
    answer_prediction: bool = True
    functions: RewardFunctions = PAPER_REWARDS
    script_seconds: float | None = None
    reference_names: bool = False

    @property
    def judging(self) -> JudgingConfig:
        """What the judge needs to know of it."""
        rewards = self.rewards
        return JudgingConfig(
            rewards.suite_size,
            self.answer_prediction,
            rewards.pool_tests,
            rewards.repeats,
            self.script_seconds,
            self.reference_names,
        )


@dataclass(frozen=True)
class _Scored:
    """One candidate's verdicts on the book's tests and, suite by suite, on the kept tests; and its suites' rewards."""

    valid: bool
    book: tuple[Verdict, ...]
    verdicts: tuple[tuple[Verdict, ...], ...]
    rewards: tuple[SuiteReward, ...]

    @property
    def book_score(self) -> BookScore:
        return BookScore(sum(verdict.passed for verdict in self.book), len(self.book))


def score_question(
    problem: Problem,
    page: Page,
    book: Sequence[Test],
    group: Sequence[Candidate],
    judgement: Judgement,
    config: ScoringConfig,
) -> QuestionRollout:
    """Rewards, advantages, the suites to learn from and the new page, for one question's group.

    `book` are the page's tests that every program faced; `group` is in the order of sampling.
    """
    scored = [_score(problem, candidate, book, judgement, config) for candidate in group]
    rewards = _code_rewards(scored, group, judgement, config.rewards)
    rewards = _own_code_rewards(problem, group, scored, rewards, config.functions)
    advantages = _advantages(rewards, config.rewards)
    selected = _select_for_training(scored, group, config.update_n)
    programs = tuple(
        ProgramRollout(
            response=candidate.response,
            program=candidate.program,
            duplicate_of=candidate.duplicate_of,
            valid=own.valid,
            book=own.book,
            suites=_suite_rollouts(candidate, own, judgement, config.rewards, trained_on=i in selected),
            reward=reward,
            advantage=advantage,
        )
        for i, (candidate, own, reward, advantage) in enumerate(zip(group, scored, rewards, advantages, strict=True))
    )
    return QuestionRollout(problem, page, _next_page(page, book, programs), tuple(book), programs)


def _score(
    problem: Problem, candidate: Candidate, book: Sequence[Test], judgement: Judgement, config: ScoringConfig
) -> _Scored:
    outcomes = judgement.programs[candidate.duplicate_of]
    validated = judgement.suites[candidate.duplicate_of]
    *verdicts, remembered = _verdicts(outcomes, [*(suite.kept for suite in validated), tuple(book)], config)
    book_score = BookScore(sum(v.passed for v in remembered), len(book))
    scores = [
        SuiteScore(_failed(on_suite), suite.invalid, response.text)
        for (response, _), suite, on_suite in zip(candidate.suites, validated, verdicts, strict=True)
    ]
    rewards = [suite_reward(score, book_score, code_valid=outcomes.valid, config=config.rewards) for score in scores]
    own = config.functions.test
    if own is not None:
        judged = [
            JudgedSuite(problem, candidate.program, response.text, suite.kept, on_suite, suite.invalid, reward)
            for (response, _), suite, on_suite, reward in zip(
                candidate.suites, validated, verdicts, rewards, strict=True
            )
        ]
        rewards = [replace(j.reward, reward=checked_reward("test_reward", problem.id, own(j))) for j in judged]
    return _Scored(outcomes.valid, remembered, tuple(verdicts), tuple(rewards))


def _own_code_rewards(
    problem: Problem,
    group: Sequence[Candidate],
    scored: Sequence[_Scored],
    rewards: list[float],
    functions: RewardFunctions,
) -> list[float]:
    """The rewards of the caller's own function, if there is one, which is given the paper's."""
    if functions.code is None:
        return rewards
    judged = [
        JudgedProgram(problem, c.response.text, c.program, own.valid, own.book, own.verdicts, reward)
        for c, own, reward in zip(group, scored, rewards, strict=True)
    ]
    return [checked_reward("code_reward", problem.id, functions.code(each)) for each in judged]


def _code_rewards(
    scored: Sequence[_Scored], group: Sequence[Candidate], judgement: Judgement, config: RewardConfig
) -> list[float]:
    """Each program's reward: on its own suites, or on the distinct valid tests of the whole group; and on the book."""
    if not config.pool_tests:
        return [
            code_reward([SuiteScore(_failed(verdicts), 0) for verdicts in own.verdicts], own.book_score, config)
            for own in scored
        ]
    everyones = (suite.kept for candidate in group for suite in judgement.suites[candidate.duplicate_of])
    pooled = tuple(dict.fromkeys(test for kept in everyones for test in kept))
    rewards = []
    for own, candidate in zip(scored, group, strict=True):
        verdicts = verdicts_on(judgement.programs[candidate.duplicate_of], pooled)
        rewards.append(code_reward([SuiteScore(_failed(verdicts), 0)], own.book_score, config))
    return rewards


def _suite_rollouts(
    candidate: Candidate, scored: _Scored, judgement: Judgement, config: RewardConfig, *, trained_on: bool
) -> tuple[SuiteRollout, ...]:
    validated = judgement.suites[candidate.duplicate_of]
    advantages = _advantages([reward.reward for reward in scored.rewards], config)
    suites = zip(candidate.suites, validated, scored.verdicts, scored.rewards, advantages, strict=True)
    return tuple(
        SuiteRollout(response, suite, kept, verdicts, reward, advantage, trained_on)
        for (response, suite), kept, verdicts, reward, advantage in suites
    )


def _verdicts(
    outcomes: ProgramOutcomes, suites: Sequence[Sequence[Test]], config: ScoringConfig
) -> list[tuple[Verdict, ...]]:
    """The verdicts on all that a program faced, in order."""
    if outcomes.in_script is None or config.rewards.pool_tests:
        return [verdicts_on(outcomes, tests) for tests in suites]
    in_script = iter(outcomes.in_script)
    return [tuple(verdict_on(next(in_script), test) for test in tests) for tests in suites]


def verdicts_on(outcomes: ProgramOutcomes, tests: Iterable[Test]) -> tuple[Verdict, ...]:
    """One program's verdicts on given tests."""
    return tuple(verdict_on(outcomes.by_call[test.call], test) for test in tests)


def _failed(verdicts: Iterable[Verdict]) -> tuple[bool, ...]:
    return tuple(not verdict.passed for verdict in verdicts)


def _advantages(rewards: Sequence[float], config: RewardConfig) -> list[float]:
    return group_advantages(rewards, scale=config.scale_advantages).tolist()


def _select_for_training(scored: Sequence[_Scored], group: Sequence[Candidate], count: int) -> frozenset[int]:
    """The candidates whose suites are learned from. Of duplicates, which share their suites, only the first counts."""
    eligible = [i for i, c in enumerate(group) if c.duplicate_of == i and c.suites]
    rewards = [[reward.reward for reward in scored[i].rewards] for i in eligible]
    return frozenset(eligible[k] for k in most_contested(rewards, count))


def _next_page(page: Page, book: Sequence[Test], programs: Iterable[ProgramRollout]) -> Page:
    valid = [p for p in programs if p.valid]
    passed = [test for p in valid for test, verdict in zip(book, p.book, strict=True) if verdict.passed]
    failed = [
        test
        for p in valid
        for s in p.suites
        for test, verdict in zip(s.validated.kept, s.verdicts, strict=True)
        if not verdict.passed
    ]
    return updated(page, passed, failed)
