"""What a round needs of a configuration: its sections, as they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from codea1_jax.config import Config, MethodConfig, RewardConfig, RolloutConfig, SandboxConfig
from codea1_jax.game.rewards import PAPER_REWARDS, RewardFunctions


@dataclass(frozen=True)
class RoundConfig:
    """How a round is played, judged and scored.

    update_n: how many candidates' suites are learned from. functions: rewards instead of the paper's.
    """

    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    method: MethodConfig = field(default_factory=MethodConfig)
    rewards: RewardConfig = field(default_factory=RewardConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    update_n: int = 1
    functions: RewardFunctions = PAPER_REWARDS

    @classmethod
    def of(cls, config: Config, functions: RewardFunctions = PAPER_REWARDS) -> RoundConfig:
        """From a configuration."""
        return cls(config.rollout, config.method, config.rewards, config.sandbox, config.train.update_n, functions)
