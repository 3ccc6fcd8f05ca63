"""Which suites the Test LLM learns from."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def most_contested(rewards: Sequence[Sequence[float]], count: int) -> tuple[int, ...]:
    """Indices of the `count` candidates whose suite rewards vary the most.

    Population standard deviation, ties to the lower index; the result is in ascending order of index.
    """
    spread = [statistics.pstdev(row) if row else 0.0 for row in rewards]
    ranked = sorted(range(len(rewards)), key=lambda i: -spread[i])
    return tuple(sorted(ranked[:count]))
