"""How a policy learns: one Learner and its objectives, packing, advantages and the optimizer."""

from codea1_jax.learn.batch import Example, Trajectory, weighted_example
from codea1_jax.learn.learner import Learner, Wait
from codea1_jax.learn.objectives import GRPO, CrossEntropy, Groups
from codea1_jax.learn.optimizer import PolicyState, frozen

__all__ = [
    "GRPO",
    "CrossEntropy",
    "Example",
    "Groups",
    "Learner",
    "PolicyState",
    "Trajectory",
    "Wait",
    "frozen",
    "weighted_example",
]
