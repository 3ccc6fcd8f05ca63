"""Advantages from the rewards of a group: the responses to one prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from codea1_jax.config import Estimator
from codea1_jax.learn.batch import Trajectory
from codea1_jax.learn.objectives import Groups

EPSILON = 1e-6


def group_advantages(rewards: Sequence[float], estimator: Estimator = "grpo") -> Float[np.ndarray, " group"]:
    """The advantages within one group of n rewards r:

    grpo         (r - mean) / (std + 1e-6), with the sample standard deviation (ddof 1) (arXiv 2402.03300)
    centred      r - mean (Dr. GRPO, arXiv 2503.20783)
    rloo         r - the mean of the others, which is n / (n - 1) · (r - mean) (arXiv 2402.14740)
    reinforce++  r - mean, which `scaled_over_step` then divides (REINFORCE++ with baseline, arXiv 2501.03262)
    maxrl        (r - mean) / mean, where a reward below 0 counts as 0 (arXiv 2602.02710, whose rewards are 0 or 1)

    A group whose rewards are all equal (a group of one is) teaches nothing: its advantages are exactly 0.

    Raises:
        ValueError: a reward is not finite.
    """
    values = np.asarray(rewards, np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"rewards must be finite, got {values.tolist()}")
    if estimator == "maxrl":
        values = np.maximum(values, 0.0)
    if values.size == 0 or values.min() == values.max():
        return np.zeros(values.shape)
    centred = values - values.mean()
    if estimator == "grpo":
        return centred / (values.std(ddof=1) + EPSILON)
    if estimator == "rloo":
        return centred * (values.size / (values.size - 1))
    return centred / values.mean() if estimator == "maxrl" else centred


def scaled_over_step(groups: Groups) -> list[list[Trajectory]]:
    """All that a policy learns from in a step, its advantages over their standard deviation + 1e-6 (REINFORCE++).

    Every group is centred, so that the mean of all is 0, and the standard deviation the root of their mean square.
    Groups are those of all hosts.
    """
    advantages = [item.advantage for group in groups for item in group if isinstance(item, Trajectory)]
    scale = float(np.sqrt(np.mean(np.square(advantages)))) + EPSILON if advantages else 1.0
    return [
        [replace(item, advantage=item.advantage / scale) for item in group if isinstance(item, Trajectory)]
        for group in groups
    ]
