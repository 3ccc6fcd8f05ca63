"""What became of a round by its verdicts alone, whatever the rewards are: who can learn from it, and what succeeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from codea1_jax.config import Role
from codea1_jax.game.rollouts import QuestionRollout, SuiteRollout

Outcome = TypeVar("Outcome", bound=object)


def can_teach(question: QuestionRollout, role: Role) -> bool:
    """Whether outcomes differ within a group that the role's advantages are relative to.

    Of the Code LLM, whether some of its programs pass all that they faced and others do not; of the Test LLM, whether
    of one program's suites some are valid throughout, or find a bug, and others are not or do not.
    """
    if role == "code":
        return _differ(program.passed for program in question.programs)
    return any(
        _differ((_valid(suite), not all(verdict.passed for verdict in suite.verdicts)) for suite in suites)
        for suites in _learned_suites(question)
    )


def _learned_suites(question: QuestionRollout) -> list[Sequence[SuiteRollout]]:
    return [suites for p in question.programs if (suites := [suite for suite in p.suites if suite.trained_on])]


def _valid(suite: SuiteRollout) -> bool:
    return bool(suite.verdicts) and not suite.validated.invalid


def _differ(outcomes: Iterable[Outcome]) -> bool:
    return len(set(outcomes)) > 1
