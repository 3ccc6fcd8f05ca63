"""How a policy learns: GRPO in two jitted phases, supervised learning, packing and the optimizer."""

from codea1_jax.learn.batch import Example, Trajectory
from codea1_jax.learn.config import GRPOConfig, OptimizerConfig, PackingConfig
from codea1_jax.learn.imitation import Imitation
from codea1_jax.learn.optimizer import PolicyState, frozen
from codea1_jax.learn.supervised import SupervisedLearner, weighted_example
from codea1_jax.learn.update import Groups, Learner, Wait

__all__ = [
    "Example",
    "GRPOConfig",
    "Groups",
    "Imitation",
    "Learner",
    "OptimizerConfig",
    "PackingConfig",
    "PolicyState",
    "SupervisedLearner",
    "Trajectory",
    "Wait",
    "frozen",
    "weighted_example",
]
