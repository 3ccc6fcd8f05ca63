"""Rewards of one candidate program and one test suite (arXiv 2603.15611, section 3).

Everything here is a pure function of counts and verdicts: `failed` and `book` state of each kept test of a suite, and
of each retrieved test of the mistake book, whether the program failed it. Callers of the Python API may put rewards of
their own in the place of the paper's.
"""

import math
import string
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from codea1_jax.common.errors import UserError
from codea1_jax.config import RewardConfig
from data_pipeline import Problem
from sandbox import Test, Verdict


@dataclass(frozen=True)
class SuiteReward:
    """R_T and its parts, for one suite. `adversarial` is adv, or what stands in its place; `penalty` is subtracted."""

    reward: float
    validity: float
    adversarial: float
    penalty: float = 0.0


_WITHOUT_PRINTABLE = str.maketrans("", "", string.printable)


def nonprintable_share(response: str) -> float:
    """Share of the characters outside printable ASCII, white space included among the printable."""
    return len(response.translate(_WITHOUT_PRINTABLE)) / max(len(response), 1)


def pair_reward(failed: Sequence[bool], book: Sequence[bool], config: RewardConfig) -> float:
    """r_ij: the mean of the pass rates on generated tests and on the book, of those that exist, else 0."""
    rates = []
    if book:
        rates.append(_pass_rate(book))
    if failed:
        rates.append(1 - sum(failed) / len(failed))
    if config.passing == "all":
        return float(bool(rates) and min(rates) == 1)
    return sum(rates) / len(rates) if rates else 0.0


def code_reward(suites: Sequence[Sequence[bool]], book: Sequence[bool], config: RewardConfig) -> float:
    """R_C: the mean of r_ij over a program's suites; its book pass rate alone if it has none."""
    return fmean(pair_reward(failed, book, config) for failed in suites or [()])


def validity(kept: int, invalid: int, suite_size: int) -> float:
    """val = clip(min(kept/K, 1 − invalid/K), 0, 1)."""
    return min(max(min(kept / suite_size, 1 - invalid / suite_size), 0.0), 1.0)


def adversarial(failed: Sequence[bool], book: Sequence[bool], config: RewardConfig) -> float:
    """adv: how much worse the program does on this suite than on its old mistakes, in [0, 1]."""
    if not failed:
        return 0.0
    first = failed[: config.suite_size]
    generated = float(any(first)) if config.difficulty == "any" else sum(first) / config.suite_size
    if not book:
        return generated
    return (generated - (1 - _pass_rate(book)) + 1) / 2


def _pass_rate(failed: Sequence[bool]) -> float:
    return (len(failed) - sum(failed)) / len(failed)


def suite_reward(
    failed: Sequence[bool],
    book: Sequence[bool],
    config: RewardConfig,
    *,
    invalid: int,
    code_valid: bool,
    response: str = "",
    value: float | None = None,
) -> SuiteReward:
    """R_T = α·val + (1−α)·adv if the program executes, else 0; minus the response's share of unprintable characters.

    invalid: how many tests did not hold under the reference (three kinds, see `validation`). value: stands in the place
    of adv (`values`); None: adv counts.
    """
    val = validity(len(failed), invalid, config.suite_size)
    adv = adversarial(failed, book, config) if value is None else value
    earned = config.alpha * val + (1 - config.alpha) * adv if code_valid else 0.0
    penalty = nonprintable_share(response)
    return SuiteReward(earned - penalty, val, adv, penalty)


@dataclass(frozen=True)
class JudgedProgram:
    """What a reward function of programs is given.

    book: the verdicts on the mistake book's tests, or on golden tests. suites: those on every suite's kept tests.
    reward: the paper's.
    """

    problem: Problem
    response: str
    program: str
    valid: bool
    book: tuple[Verdict, ...]
    suites: tuple[tuple[Verdict, ...], ...]
    reward: float


@dataclass(frozen=True)
class JudgedSuite:
    """What a reward function of suites is given.

    program: the program under test. kept, verdicts: the tests that count, and the program's verdict on each. invalid:
    how many did not hold under the reference. reward: the paper's, with its parts.
    """

    problem: Problem
    program: str
    response: str
    kept: tuple[Test, ...]
    verdicts: tuple[Verdict, ...]
    invalid: int
    reward: SuiteReward


CodeReward = Callable[[JudgedProgram], float]
TestReward = Callable[[JudgedSuite], float]


@dataclass(frozen=True)
class RewardFunctions:
    """What stands in for the paper's rewards; None: the paper's own are used."""

    code: CodeReward | None = None
    test: TestReward | None = None


PAPER_REWARDS = RewardFunctions()


def checked_reward(key: str, function: Callable[[Any], Any], judged: JudgedProgram | JudgedSuite) -> float:
    """What a user's function returns, which `key` names. Raises UserError for a mistake in it or no finite number.

    What fails around it, such as a judge that it asks, is raised as it is.
    """
    name, question = f"{key}: {getattr(function, '__name__', function)}", judged.problem.id
    try:
        reward = function(judged)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError) as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"line {at.lineno} of {at.filename}"
        raise UserError(f"{name} failed for {question}: {type(error).__name__}: {error} ({where})") from error
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{name} returned {reward!r} for {question}; a reward must be a finite number")
    return number
