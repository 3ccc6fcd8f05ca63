"""Which of a dataset's problems are held out from training."""

import hashlib
from collections.abc import Sequence

from data_pipeline.problem import Problem


def hold_out(
    problems: Sequence[Problem], share: float, at_most: int | None = None
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Training problems, and those held out: a share of all solutions, chosen by a hash, `at_most` that many.

    Two wordings of a problem share one solution, so they are never on different sides.
    """
    positions = {problem: _position(problem.solution) for problem in problems}
    chosen = frozenset(sorted({position for position in positions.values() if position < share})[:at_most])
    train = tuple(problem for problem in problems if positions[problem] not in chosen)
    return train, tuple(problem for problem in problems if positions[problem] in chosen)


def _position(solution: str) -> float:
    """Where in [0, 1) a hash puts a solution."""
    return int.from_bytes(hashlib.sha256(solution.strip().encode()).digest()[:6]) / 2**48
