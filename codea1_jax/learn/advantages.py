"""Group-relative advantages (GRPO, arXiv 2402.03300)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

EPSILON = 1e-6


def group_advantages(rewards: Sequence[float], *, scale: bool = True) -> Float[np.ndarray, " group"]:
    """(r - mean) / (std + 1e-6) within one group, with the sample standard deviation (ddof 1).

    Without `scale` it is r - mean (Dr. GRPO, arXiv 2503.20783). A group whose rewards are all equal (a group of
    one is) teaches nothing: its advantages are exactly 0.

    Raises:
        ValueError: a reward is not finite.
    """
    values = np.asarray(rewards, np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"rewards must be finite, got {values.tolist()}")
    if values.size == 0 or values.min() == values.max():
        return np.zeros(values.shape)
    centred = values - values.mean()
    return centred / (values.std(ddof=1) + EPSILON) if scale else centred
