"""Figures of merit, as pure functions of counts."""

from __future__ import annotations

import math


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """The unbiased estimate 1 − C(n−c, k) / C(n, k) of the chance that one of k samples is correct.

    Source: arXiv 2107.03374, equation 1. Raises ValueError if k exceeds the number of samples.
    """
    if not 0 < k <= samples:
        raise ValueError(f"pass@{k} needs at least {k} samples, there are {samples}")
    return 1 - math.comb(samples - correct, k) / math.comb(samples, k)


def mul(pass_at_5: float, mut_at_5: float) -> float:
    """Mul = pass@5 · mut@5 / 100, all in percent."""
    return pass_at_5 * mut_at_5 / 100
