"""From one question's judgement to its rewards, advantages and new page of the mistake book. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from codea1_jax.game.judging import Judgement, JudgingConfig, Testimony
from codea1_jax.game.mistake_book import updated
from codea1_jax.game.parsing import Suite
from codea1_jax.game.records import Candidate, Page, PlayedProgram, PlayedQuestion, PlayedSuite, Response
from codea1_jax.game.rewards import (
    BookScore,
    RewardConfig,
    SuiteScore,
    code_reward,
    nonprintable_share,
    suite_reward,
)
from codea1_jax.game.selection import most_contested
from codea1_jax.game.validation import ValidatedSuite
from codea1_jax.learn.advantages import group_advantages
from data_pipeline import Problem
from sandbox import Test, Verdict, verdict_on


@dataclass(frozen=True)
class Scoring:
    """How a question is scored.

    update_n: how many candidates' suites are learned from. answer_prediction: a test's stated answer counts; else the
    reference fills in every answer, and no test is invalid for a wrong one.
    """

    rewards: RewardConfig
    update_n: int
    answer_prediction: bool = True

    @property
    def judging(self) -> JudgingConfig:
        """What the judge needs to know of it."""
        rewards = self.rewards
        return JudgingConfig(rewards.suite_size, self.answer_prediction, rewards.pool_tests, rewards.repeats)


def settle(
    problem: Problem,
    page: Page,
    book: Sequence[Test],
    group: Sequence[Candidate],
    judgement: Judgement,
    scoring: Scoring,
) -> PlayedQuestion:
    """Rewards, advantages, the suites to learn from and the new page, for one question's group.

    `book` are the page's tests that every program faced; `group` is in the order of sampling.
    """
    programs = [_play(c, book, judgement, scoring) for c in group]
    if scoring.rewards.pool_tests:
        programs = _rescore_on_pool(programs, group, judgement, scoring.rewards)
    elected = _elect(programs, group, scoring.update_n)
    advantages = group_advantages([p.reward for p in programs], scale=scoring.rewards.scale_advantages)
    programs = [
        replace(p, advantage=float(advantage), suites=tuple(replace(s, learned=i in elected) for s in p.suites))
        for i, (p, advantage) in enumerate(zip(programs, advantages, strict=True))
    ]
    return PlayedQuestion(problem, page, _next_page(page, book, programs), tuple(book), tuple(programs))


def _play(candidate: Candidate, book: Sequence[Test], judgement: Judgement, scoring: Scoring) -> PlayedProgram:
    """A candidate against its own suites and the book; its own advantage is not known yet."""
    testimony = judgement.programs[candidate.twin]
    remembered = verdicts_on(testimony, book)
    book_score = BookScore(sum(v.passed for v in remembered), len(book))
    suites = [
        _play_suite(response, suite, validated, testimony, book_score, scoring)
        for (response, suite), validated in zip(candidate.suites, judgement.suites[candidate.twin], strict=True)
    ]
    advantages = group_advantages([s.reward.reward for s in suites], scale=scoring.rewards.scale_advantages)
    return PlayedProgram(
        response=candidate.response,
        program=candidate.program,
        valid=testimony.valid,
        book=remembered,
        suites=tuple(replace(s, advantage=float(a)) for s, a in zip(suites, advantages, strict=True)),
        reward=code_reward([_score(s) for s in suites], book_score, scoring.rewards),
        advantage=0.0,
    )


def _play_suite(
    response: Response,
    suite: Suite,
    validated: ValidatedSuite,
    testimony: Testimony,
    book: BookScore,
    scoring: Scoring,
) -> PlayedSuite:
    verdicts = verdicts_on(testimony, validated.kept)
    score = SuiteScore(_failed(verdicts), validated.invalid, nonprintable_share(response.text))
    reward = suite_reward(score, book, code_valid=testimony.valid, config=scoring.rewards)
    return PlayedSuite(response, suite, validated, verdicts, reward, advantage=0.0, learned=False)


def verdicts_on(testimony: Testimony, tests: Iterable[Test]) -> tuple[Verdict, ...]:
    """One program's verdicts on given tests."""
    return tuple(verdict_on(testimony.outcomes[test.call], test.expected) for test in tests)


def _failed(verdicts: Iterable[Verdict]) -> tuple[bool, ...]:
    return tuple(not verdict.passed for verdict in verdicts)


def _score(suite: PlayedSuite) -> SuiteScore:
    return SuiteScore(_failed(suite.verdicts), suite.validated.invalid)


def _rescore_on_pool(
    programs: Sequence[PlayedProgram], group: Sequence[Candidate], judgement: Judgement, config: RewardConfig
) -> list[PlayedProgram]:
    """The same programs, each rewarded on the distinct valid tests of the whole group and on the book."""
    pool = tuple(dict.fromkeys(test for p in programs for s in p.suites for test in s.validated.kept))
    rescored = []
    for program, candidate in zip(programs, group, strict=True):
        verdicts = verdicts_on(judgement.programs[candidate.twin], pool)
        book = BookScore(sum(v.passed for v in program.book), len(program.book))
        rescored.append(replace(program, reward=code_reward([SuiteScore(_failed(verdicts), 0)], book, config)))
    return rescored


def _elect(programs: Sequence[PlayedProgram], group: Sequence[Candidate], count: int) -> frozenset[int]:
    """The candidates whose suites are learned from; of twins, which share their suites, only the first stands."""
    standing = [i for i, c in enumerate(group) if c.twin == i and c.suites]
    rewards = [[s.reward.reward for s in programs[i].suites] for i in standing]
    return frozenset(standing[k] for k in most_contested(rewards, count))


def _next_page(page: Page, book: Sequence[Test], programs: Iterable[PlayedProgram]) -> Page:
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
