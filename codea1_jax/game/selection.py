"""Which groups can teach a policy something, and which suites the Test LLM learns from."""

import statistics
from collections.abc import Iterable, Sequence

from codea1_jax.config import Role
from codea1_jax.game.rollouts import QuestionRollout, SuiteRollout


def most_contested(rewards: Sequence[Sequence[float]], count: int) -> tuple[int, ...]:
    """Indices of the `count` candidates whose suite rewards vary the most.

    Population standard deviation, ties to the lower index; the result is in ascending order of index.
    """
    spread = [statistics.pstdev(row) if row else 0.0 for row in rewards]
    ranked = sorted(range(len(rewards)), key=lambda i: -spread[i])
    return tuple(sorted(ranked[:count]))


def can_teach(question: QuestionRollout, role: Role) -> bool:
    """Whether outcomes, by verdicts alone, differ within a group that the role's advantages are relative to.

    For the Code LLM: some programs pass everything that they faced and others do not. For the Test LLM: of one
    program's suites, some are valid throughout, or find a bug, and others are not or do not.
    """
    if role == "code":
        return _differ(program.passed for program in question.programs)
    return any(
        _differ(_outcome(suite) for suite in program.suites if suite.trained_on) for program in question.programs
    )


def _outcome(suite: SuiteRollout) -> tuple[bool, bool]:
    valid = bool(suite.verdicts) and not suite.validated.invalid
    return valid, not all(verdict.passed for verdict in suite.verdicts)


def _differ(outcomes: Iterable[object]) -> bool:
    return len(set(outcomes)) > 1
