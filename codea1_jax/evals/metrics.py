"""The metrics, as pure functions of counts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2_000


@dataclass(frozen=True)
class Estimate:
    """A mean over problems with the bounds of its 95% bootstrap interval, all in percent."""

    value: float
    low: float
    high: float


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


def estimate(*columns: Sequence[float | None]) -> Estimate:
    """The mean of per-problem shares (0 to 1), or the product of the means of several columns of them, as Mul is.

    Its interval is a percentile bootstrap: problems are drawn with replacement `RESAMPLES` times, from a fixed seed.
    A share of None counts for no mean, and 0 is the mean of none. Raises ValueError for no problems.
    """
    counted = np.array([[share is not None for share in column] for column in columns], dtype=float)
    table = np.array([[share or 0.0 for share in column] for column in columns], dtype=float)
    if not table.size:
        raise ValueError("no problems to take a mean over")
    drawn = np.random.default_rng(0).integers(0, table.shape[1], (RESAMPLES, table.shape[1]))
    products = _means(table[:, drawn], counted[:, drawn]).prod(axis=0)
    low, high = np.percentile(100 * products, [2.5, 97.5])
    return Estimate(float(100 * _means(table, counted).prod()), float(low), float(high))


def solved(counts: Sequence[tuple[int, int]], ks: Sequence[int], unjudged: int = 0) -> dict[str, Estimate]:
    """avg@n, and pass@k for those of `ks` for which every problem has enough samples.

    counts: of each problem, how many samples it has, and how many are correct. Nobody solves the `unjudged` ones.
    """
    failed = [0.0] * unjudged
    fewest = min(samples for samples, _ in counts)
    estimates = {"avg_at_n": estimate([*(correct / samples for samples, correct in counts), *failed])}
    for k in ks:
        if k <= fewest:
            estimates[f"pass_at_{k}"] = estimate([*(pass_at_k(*count, k) for count in counts), *failed])
    return estimates


def bounded(prefix: str, estimates: Mapping[str, Estimate]) -> dict[str, float]:
    """The metrics below a prefix, each with its interval as `_low` and `_high`."""
    ends = (("", "value"), ("_low", "low"), ("_high", "high"))
    return {f"{prefix}/{name}{end}": getattr(each, part) for name, each in estimates.items() for end, part in ends}


def _means(shares: np.ndarray, counted: np.ndarray) -> np.ndarray:
    return shares.sum(axis=-1) / np.maximum(counted.sum(axis=-1), 1)
