"""Supervised learning in the form of a GRPO learner: for a method that imitates what it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from codea1_jax.learn.batch import Trajectory, trajectory_example
from codea1_jax.learn.optimizer import Params, PolicyState
from codea1_jax.learn.supervised import SupervisedLearner


class Imitation:
    """Learns completions by cross-entropy, each weighed by its advantage; there are no ratios and no KL term."""

    def __init__(self, learner: SupervisedLearner) -> None:
        self._learner = learner
        self.phases = learner.phases

    def init(self, params: Params) -> PolicyState:
        """The state before the first step. `params` stay the caller's: they are copied."""
        return self._learner.init(params)

    def abstract(self, params: Params) -> PolicyState:
        """Of placed shapes, those of the state that `init` makes."""
        return self._learner.abstract(params)

    def computed(self, groups: Sequence[Sequence[Trajectory]]) -> Sequence[Sequence[Trajectory]]:
        """Those trajectories of each group that an update computes: all."""
        return groups

    def update(
        self,
        state: PolicyState,
        reference: Params | None,
        groups: Sequence[Sequence[Trajectory]],
        wait: Callable[[Any], object] = jax.block_until_ready,
    ) -> tuple[PolicyState, dict[str, float]]:
        """One optimizer update; `state` is donated. With LoRA, `reference` is the base; without, it is not used.

        `wait` is as there. Raises as `SupervisedLearner.update` does.
        """
        return self._learner.update(state, [trajectory_example(t) for group in groups for t in group], reference, wait)
