"""From one question's judgement to its rewards, advantages and new page of the mistake book. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from codea1_jax.config import Config, RewardConfig
from codea1_jax.game.judging import Judgement, ProgramOutcomes
from codea1_jax.game.mistake_book import updated
from codea1_jax.game.rewards import (
    PAPER_REWARDS,
    JudgedProgram,
    JudgedSuite,
    RewardFunctions,
    SuiteReward,
    checked_reward,
    code_reward,
    suite_reward,
)
from codea1_jax.game.rollouts import Candidate, Page, ProgramRollout, QuestionRollout, SuiteRollout, WrittenSuite
from codea1_jax.game.selection import most_contested
from codea1_jax.game.validation import ValidatedSuite
from codea1_jax.game.values import own_values, shared_values
from codea1_jax.learn.advantages import group_advantages
from data_pipeline import Problem
from sandbox import Test, Verdict, verdict_on


def score_question(
    problem: Problem,
    page: Page,
    group: Sequence[Candidate],
    judgement: Judgement,
    config: Config,
    functions: RewardFunctions = PAPER_REWARDS,
) -> QuestionRollout:
    """Rewards, advantages, the suites to learn from and the new page, for one question's group.

    `group` is in the order of sampling. `functions` replace the paper's rewards.
    """
    scoring, values = _Scoring(problem, judgement, config, functions), _values(judgement, config.rewards)
    judged = [scoring.program(candidate, values[candidate.duplicate_of]) for candidate in group]
    judged = [replace(program, faced=faced) for program, faced in zip(judged, scoring.faced(judged), strict=True)]
    rewards = [scoring.code_reward(program) for program in judged]
    advantages = _advantages(rewards, config.rewards)
    selected = _select_for_training(judged, config.train.update_n)
    programs = tuple(
        replace(
            program,
            suites=tuple(replace(suite, trained_on=i in selected) for suite in program.suites),
            reward=reward,
            advantage=advantage,
        )
        for i, (program, reward, advantage) in enumerate(zip(judged, rewards, advantages, strict=True))
    )
    book = judgement.book
    return QuestionRollout(problem, page, _next_page(page, book, programs), book, programs)


def _earning(suite: ValidatedSuite, rewards: RewardConfig) -> list[Test]:
    first = suite.kept[: rewards.suite_size]
    return [test for test in first if not (rewards.only_right and test in suite.mistaken)]


def _values(judgement: Judgement, rewards: RewardConfig) -> Mapping[int, Sequence[float | None]]:
    """What stands in the place of adv, of each program's suites; None: adv counts."""
    known = judgement.detections
    if known is None:
        return {index: [None] * len(own) for index, own in judgement.suites.items()}
    earning = {index: [_earning(suite, rewards) for suite in own] for index, own in judgement.suites.items()}
    of_all = shared_values if rewards.test_value == "shared" else own_values
    values = iter(of_all([*chain.from_iterable(earning.values())], known))
    return {index: [*islice(values, len(own))] for index, own in earning.items()}


@dataclass(frozen=True)
class _Scoring:
    problem: Problem
    judgement: Judgement
    config: Config
    functions: RewardFunctions

    def program(self, candidate: Candidate, values: Sequence[float | None]) -> ProgramRollout:
        """values: of its suites, as `_values` has them."""
        outcomes = self.judgement.programs[candidate.duplicate_of]
        validated = self.judgement.suites[candidate.duplicate_of]
        faced = [self.judgement.book, *(suite.kept for suite in validated)]
        book, *verdicts = _verdicts(outcomes, faced, self.config)
        judged = zip(candidate.suites, validated, verdicts, values, strict=True)
        rewarded = [(*each, self._suite_reward(candidate, *each, book, valid=outcomes.valid)) for each in judged]
        advantages = self._suite_advantages([reward for *_, reward in rewarded], valid=outcomes.valid)
        suites = tuple(
            SuiteRollout(written.response, written.suite, own, of_own, reward, advantage)
            for (written, own, of_own, _, reward), advantage in zip(rewarded, advantages, strict=True)
        )
        return ProgramRollout(
            candidate.response, candidate.program, candidate.duplicate_of, outcomes.valid, book, suites
        )

    def _suite_advantages(self, rewards: Sequence[SuiteReward], *, valid: bool) -> list[float]:
        """Of R_T; of shared credit, which differs far more than validity, each part's by itself, weighted as R_T is.

        So no part drowns the other (GDPO, arXiv 2601.05242, without its normalization over the batch).
        """
        config = self.config.rewards
        if config.test_value != "shared" or self.functions.test is not None or not valid:
            return _advantages([reward.reward for reward in rewards], config)
        parts = ((config.alpha, "validity"), (1 - config.alpha, "adversarial"))
        of_parts = [[getattr(each, part) - each.penalty for each in rewards] for _, part in parts]
        apart = [[w * a for a in _advantages(of, config)] for (w, _), of in zip(parts, of_parts, strict=True)]
        return [sum(of) for of in zip(*apart, strict=True)]

    def _suite_reward(
        self,
        candidate: Candidate,
        written: WrittenSuite,
        validated: ValidatedSuite,
        verdicts: tuple[Verdict, ...],
        value: float | None,
        book: tuple[Verdict, ...],
        *,
        valid: bool,
    ) -> SuiteReward:
        rewards, text, invalid = self.config.rewards, written.response.text, validated.invalid
        earning = _earning(validated, rewards)
        found = tuple(not v.passed and test in earning for test, v in zip(validated.kept, verdicts, strict=True))
        reward = suite_reward(
            found, _failed(book), rewards, invalid=invalid, code_valid=valid, response=text, value=value
        )
        if self.functions.test is None:
            return reward
        judged = JudgedSuite(self.problem, candidate.program, text, validated.kept, verdicts, invalid, reward)
        return replace(reward, reward=checked_reward("rewards.test", self.functions.test, judged))

    def faced(self, judged: Sequence[ProgramRollout]) -> list[tuple[Mapping[Test, Verdict], ...]]:
        if not self.config.rewards.pool_tests:
            return [tuple(dict(zip(s.validated.kept, s.verdicts, strict=True)) for s in p.suites) for p in judged]
        pooled = tuple(dict.fromkeys(test for p in judged for suite in p.suites for test in suite.validated.kept))
        of_each = (verdicts_on(self.judgement.programs[program.duplicate_of], pooled) for program in judged)
        return [(dict(zip(pooled, verdicts, strict=True)),) for verdicts in of_each]

    def code_reward(self, program: ProgramRollout) -> float:
        faced = [_failed(verdicts.values()) for verdicts in program.faced]
        reward = code_reward(faced, _failed(program.book), self.config.rewards)
        if self.functions.code is None:
            return reward
        own = tuple(suite.verdicts for suite in program.suites)
        text, valid = program.response.text, program.valid
        judged = JudgedProgram(self.problem, text, program.program, valid, program.book, own, reward)
        return checked_reward("rewards.code", self.functions.code, judged)


def _verdicts(outcomes: ProgramOutcomes, suites: Sequence[Sequence[Test]], config: Config) -> list[tuple[Verdict, ...]]:
    if outcomes.in_script is None or config.rewards.pool_tests:
        return [verdicts_on(outcomes, tests) for tests in suites]
    in_script = iter(outcomes.in_script)
    return [tuple(verdict_on(next(in_script), test) for test in tests) for tests in suites]


def verdicts_on(outcomes: ProgramOutcomes, tests: Iterable[Test]) -> tuple[Verdict, ...]:
    return tuple(verdict_on(outcomes.by_call[test.call], test) for test in tests)


def _failed(verdicts: Iterable[Verdict]) -> tuple[bool, ...]:
    return tuple(not verdict.passed for verdict in verdicts)


def _advantages(rewards: Sequence[float], config: RewardConfig) -> list[float]:
    return group_advantages(rewards, config.advantages).tolist()


def _select_for_training(programs: Sequence[ProgramRollout], count: int) -> frozenset[int]:
    """The candidates whose suites are learned from. Of duplicates, which share their suites, only the first counts."""
    eligible = [i for i, program in enumerate(programs) if program.duplicate_of == i and program.suites]
    rewards = [[suite.reward.reward for suite in programs[i].suites] for i in eligible]
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
