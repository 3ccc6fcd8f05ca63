"""A configuration of the game alone: the defaults, which are the paper's, except for the sections that are given."""

from codea1_jax.config import Config, DataConfig, ModelConfig, RolloutConfig, Section
from codea1_jax.config.run import RunConfig

ROLLOUT = RolloutConfig(samples=2, suites=2)


def game_config(rollout: RolloutConfig = ROLLOUT, **sections: Section) -> Config:
    """`sections` by their names, such as `rewards`."""
    own = {"run": RunConfig(directory="unused"), "data": DataConfig(source="micro"), **sections}
    return Config(model=ModelConfig(pretrained="unused"), rollout=rollout, **own)
