"""From one question's judgement to its rewards, advantages and new page of the mistake book. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

from codea1_jax.config import Config, RewardConfig
from codea1_jax.game.judging import Judgement, ProgramOutcomes
from codea1_jax.game.mistake_book import updated
from codea1_jax.game.rewards import (
    PAPER_REWARDS,
    CodeReward,
    JudgedProgram,
    JudgedSuite,
    RewardFunctions,
    TestReward,
    checked_reward,
    code_reward,
    suite_reward,
)
from codea1_jax.game.rollouts import Candidate, Page, ProgramRollout, QuestionRollout, SuiteRollout, WrittenSuite
from codea1_jax.game.selection import most_contested
from codea1_jax.game.validation import ValidatedSuite
from codea1_jax.game.values import shared_values, suite_value
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
    book, values = judgement.book, _values(judgement, config.rewards)
    judged = [_score_program(problem, each, judgement, values, config, functions.test) for each in group]
    faced = _faced(judged, judgement, config)
    rewards = [_code_reward(problem, *each, config.rewards, functions.code) for each in zip(judged, faced, strict=True)]
    advantages = _advantages(rewards, config.rewards)
    selected = _select_for_training(judged, config.train.update_n)
    programs = tuple(
        replace(
            program,
            suites=tuple(replace(suite, trained_on=i in selected) for suite in program.suites),
            passed=_passed(faced[i], program.book),
            reward=reward,
            advantage=advantage,
        )
        for i, (program, reward, advantage) in enumerate(zip(judged, rewards, advantages, strict=True))
    )
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
    if rewards.test_value == "shared":
        shared = iter(shared_values([*chain.from_iterable(earning.values())], known))
        return {index: [*islice(shared, len(own))] for index, own in earning.items()}
    size, price = rewards.suite_size, rewards.redundancy_price
    return {index: [suite_value(tests, known, size, price) for tests in own] for index, own in earning.items()}


def _score_program(
    problem: Problem,
    candidate: Candidate,
    judgement: Judgement,
    values: Mapping[int, Sequence[float | None]],
    config: Config,
    function: TestReward | None,
) -> ProgramRollout:
    outcomes, validated = judgement.programs[candidate.duplicate_of], judgement.suites[candidate.duplicate_of]
    on_book, *verdicts = _verdicts(outcomes, [judgement.book, *(suite.kept for suite in validated)], config)
    suites = [
        _suite_rollout(problem, candidate, *each, on_book, judgement, config.rewards, function)
        for each in zip(candidate.suites, validated, verdicts, values[candidate.duplicate_of], strict=True)
    ]
    advantages = _advantages([suite.reward.reward for suite in suites], config.rewards)
    return ProgramRollout(
        response=candidate.response,
        program=candidate.program,
        duplicate_of=candidate.duplicate_of,
        valid=outcomes.valid,
        book=on_book,
        suites=tuple(replace(s, advantage=advantage) for s, advantage in zip(suites, advantages, strict=True)),
    )


def _suite_rollout(
    problem: Problem,
    candidate: Candidate,
    written: WrittenSuite,
    validated: ValidatedSuite,
    verdicts: tuple[Verdict, ...],
    value: float | None,
    on_book: tuple[Verdict, ...],
    judgement: Judgement,
    rewards: RewardConfig,
    function: TestReward | None,
) -> SuiteRollout:
    earning = _earning(validated, rewards)
    found = tuple(not v.passed and test in earning for test, v in zip(validated.kept, verdicts, strict=True))
    text, valid = written.response.text, judgement.programs[candidate.duplicate_of].valid
    reward = suite_reward(
        found, _failed(on_book), rewards, invalid=validated.invalid, code_valid=valid, response=text, value=value
    )
    if function is not None:
        judged = JudgedSuite(problem, candidate.program, text, validated.kept, verdicts, validated.invalid, reward)
        reward = replace(reward, reward=checked_reward("test_reward", problem.id, function(judged)))
    return SuiteRollout(written.response, written.suite, validated, verdicts, reward)


def _faced(
    judged: Sequence[ProgramRollout], judgement: Judgement, config: Config
) -> list[tuple[tuple[Verdict, ...], ...]]:
    if not config.rewards.pool_tests:
        return [tuple(suite.verdicts for suite in program.suites) for program in judged]
    pooled = tuple(dict.fromkeys(test for p in judged for suite in p.suites for test in suite.validated.kept))
    return [(verdicts_on(judgement.programs[program.duplicate_of], pooled),) for program in judged]


def _code_reward(
    problem: Problem,
    program: ProgramRollout,
    faced: Sequence[tuple[Verdict, ...]],
    rewards: RewardConfig,
    function: CodeReward | None,
) -> float:
    reward = code_reward([_failed(verdicts) for verdicts in faced], _failed(program.book), rewards)
    if function is None:
        return reward
    own = tuple(suite.verdicts for suite in program.suites)
    seen = JudgedProgram(problem, program.response.text, program.program, program.valid, program.book, own, reward)
    return checked_reward("code_reward", problem.id, function(seen))


def _passed(faced: Sequence[tuple[Verdict, ...]], book: tuple[Verdict, ...]) -> bool:
    verdicts = [*chain.from_iterable(faced), *book]
    return bool(verdicts) and all(verdict.passed for verdict in verdicts)


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
