from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from codea1_jax.config import Estimator

EPSILON = 1e-6


def group_advantages(rewards: Sequence[float], estimator: Estimator = "grpo") -> Float[np.ndarray, " group"]:
    """The advantages within one group of n rewards r:

    grpo     (r - mean) / (std + 1e-6), with the sample standard deviation (ddof 1) (arXiv 2402.03300)
    centred  r - mean (Dr. GRPO, arXiv 2503.20783)
    rloo     r - the mean of the others, which is n / (n - 1) · (r - mean) (arXiv 2402.14740)

    A group whose rewards are all equal (a group of one is) teaches nothing: its advantages are exactly 0.

    Raises ValueError if a reward is not finite.
    """
    values = np.asarray(rewards, np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"rewards must be finite, got {values.tolist()}")
    if values.size == 0 or values.min() == values.max():
        return np.zeros(values.shape)
    centred = values - values.mean()
    if estimator == "grpo":
        return centred / (values.std(ddof=1) + EPSILON)
    if estimator == "rloo":
        return centred * (values.size / (values.size - 1))
    return centred
