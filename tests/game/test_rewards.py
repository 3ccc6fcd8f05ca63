import math
from pathlib import Path

import numpy as np
import pytest
from parity import load_parity
from random_rewards import COUNT, cases

from codea1_jax.common.errors import UserError
from codea1_jax.config import RewardConfig
from codea1_jax.game.rewards import (
    JudgedSuite,
    SuiteReward,
    checked_reward,
    code_reward,
    nonprintable_share,
    pair_reward,
    suite_reward,
)
from data_pipeline import Problem
from sandbox import SandboxError

CASES = load_parity()["rewards"]
FIXTURES = Path(__file__).parents[1] / "fixtures"


def book_of(passed: int, total: int) -> tuple[bool, ...]:
    """Which of the book's tests were failed."""
    return (False,) * passed + (True,) * (total - passed)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_rewards_and_their_parts_equal_the_original_formulas(case):
    response = {0: "", 0.1: "assert f(é"}[case["nonprintable_ratio"]]
    failed, book = tuple(map(bool, case["kept_failed_mask"])), book_of(case["book_passed"], case["book_total"])
    counts = {"invalid": case["invalid_tests"], "code_valid": case["code_valid"], "response": response}
    rewarded = suite_reward(failed, book, RewardConfig(alpha=case["alpha"]), **counts)
    assert pair_reward(failed, book, RewardConfig()) == pytest.approx(case["code_reward"], abs=1e-6)
    assert rewarded.reward == pytest.approx(case["test_reward"], abs=1e-6)
    assert rewarded.validity == pytest.approx(case["validity"], abs=1e-6)
    assert rewarded.adversarial == pytest.approx(case["adversarial"], abs=1e-6)


def test_rewards_of_random_cases_are_those_of_the_original():
    """Recorded from the original's own function (commit be86d93), which was run by hand on the same cases."""
    with np.load(FIXTURES / "rewards.npz") as recorded:
        code, test = recorded["code"], recorded["test"]
    assert len(code) == COUNT
    for case, code_expected, test_expected in zip(cases(), code, test, strict=True):
        book, config = book_of(case.book_passed, case.book_total), RewardConfig(alpha=case.alpha)
        counts = {"invalid": case.invalid, "code_valid": case.code_valid, "response": case.response}
        rewarded = suite_reward(case.failed, book, config, **counts)
        assert abs(pair_reward(case.failed, book, RewardConfig()) - code_expected) < 1e-9, case
        assert abs(rewarded.reward - test_expected) < 1e-9, case


def test_code_reward_is_the_mean_over_suites():
    suites = [(False, True), (), (False,)]
    # With half of the book passed: (1/2 + 1/2)/2, 1/2 alone, (1/2 + 1)/2.
    assert code_reward(suites, book_of(1, 2), RewardConfig()) == pytest.approx((0.5 + 0.5 + 0.75) / 3)


def test_a_program_without_suites_is_rewarded_by_the_book_alone():
    assert code_reward([], book_of(3, 4), RewardConfig()) == 0.75
    assert code_reward([], book_of(0, 0), RewardConfig()) == 0


def test_any_kill_counts_whole_only_among_the_first_k_tests():
    config = RewardConfig(alpha=0, suite_size=2, difficulty="any")
    assert suite_reward((False, True), (), config, invalid=0, code_valid=True).adversarial == 1
    assert suite_reward((False, False, True), (), config, invalid=0, code_valid=True).adversarial == 0


@pytest.mark.parametrize(("response", "share"), [("", 0), ("assert f(1) == 2\n\t", 0), ("é", 1), ("ab\x00é", 0.5)])
def test_nonprintable_share_counts_characters_outside_printable_ascii(response, share):
    assert nonprintable_share(response) == share


def test_passing_all_earns_one_only_if_no_test_and_no_old_mistake_fails():
    config = RewardConfig(passing="all")
    assert pair_reward((False, False), book_of(2, 2), config) == 1
    assert pair_reward((False, True), book_of(2, 2), config) == 0
    assert pair_reward((False, False), book_of(1, 2), config) == 0
    assert pair_reward((), book_of(0, 0), config) == 0


def suite_of(question: str) -> JudgedSuite:
    return JudgedSuite(Problem(question, "", "", "f", ()), "", "", (), (), 0, SuiteReward(0.5, 0.5, 0.5))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, None, "much"])
def test_what_a_reward_function_returns_must_be_a_finite_number(wrong):
    def mine(judged: JudgedSuite) -> object:
        return wrong

    with pytest.raises(UserError) as refused:
        checked_reward("rewards.test", mine, suite_of("q1"))
    assert str(refused.value) == f"rewards.test: mine returned {wrong!r} for q1; a reward must be a finite number"
    assert checked_reward("rewards.test", lambda _: np.float32(0.5), suite_of("q1")) == 0.5


def test_a_reward_function_that_fails_is_named_with_its_line():
    def mine(judged: JudgedSuite) -> object:
        return judged.reward - 0.001  # of a suite the number is judged.reward.reward

    def asks(judged: JudgedSuite) -> object:
        raise SandboxError("the judge died")

    with pytest.raises(SandboxError, match="the judge died"):
        checked_reward("rewards.test", asks, suite_of("q1"))
    with pytest.raises(UserError, match=r"^rewards.test: mine failed for q1: TypeError: .* \(line \d+ of .*\.py\)$"):
        checked_reward("rewards.test", mine, suite_of("q1"))
