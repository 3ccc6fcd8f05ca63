from typing import Literal

from pydantic import Field, model_validator

from codea1_jax.config.model import ModelConfig
from codea1_jax.config.section import Section

Importance = Literal["token", "icepop"]


class GRPOConfig(Section):
    """The objective; the defaults are the paper's."""

    loss: Literal["clipped", "cispo"] = Field(
        default="clipped",
        description="clipped: PPO's clipped loss; cispo: -advantage · log-probability, times the clipped ratio as a "
        "constant, which keeps every token's gradient (CISPO)",
    )
    clip_low: float = Field(default=0.20, ge=0, le=1, description="the ratio is clipped below at 1 - clip_low")
    clip_high: float = Field(default=0.28, ge=0, description="the ratio is clipped above at 1 + clip_high")
    ratio: Literal["token", "sequence"] = Field(
        default="token",
        description="what is clipped: each token's ratio, or its response's geometric mean of them (GSPO)",
    )
    normalizer: Literal["tokens", "constant"] = Field(
        default="tokens",
        description="what the sum over a mini-batch's tokens is divided by: their number, or the number of responses "
        "times the longest response allowed (Dr. GRPO)",
    )
    importance_cap: float | None = Field(
        default=None,
        ge=1,
        description="multiply each token's loss by its policy / sampler probability, at most this (truncated "
        "importance sampling)",
    )
    importance_floor: float = Field(
        default=0.0, ge=0, le=1, description="lower bound of that weight; importance_cap is the upper one"
    )
    importance: Importance = Field(
        default="token",
        description="token: weights are clipped to the bounds; icepop: weights outside the bounds become 0",
    )
    kl_coef: float = Field(default=0.001, ge=0, description="weight of the KL to the reference; 0: no reference")
    entropy_coef: float = Field(default=0.0, ge=0, description="weight of the entropy bonus")
    mask_truncated: bool = Field(
        default=False, description="learn nothing from responses cut off at the longest length (overlong filtering)"
    )
    mini_batch_questions: int = Field(default=128, ge=1, description="questions per optimizer update")
    skip_zero_advantage: bool = Field(
        default=False, description="do not compute responses of advantage 0; exact when kl_coef and entropy_coef are 0"
    )

    @model_validator(mode="after")
    def _is_bounded_above(self) -> "GRPOConfig":
        if self.importance_cap is None and (self.importance != "token" or self.importance_floor):
            raise ValueError("importance: it has no effect without importance_cap; set it as well")
        return self


class OptimizerConfig(Section):
    """AdamW; the defaults are the paper's."""

    learning_rate: float = Field(default=1e-6, gt=0, description="peak of the schedule")
    schedule: Literal["cosine", "constant"] = Field(default="cosine", description="what follows the warm-up")
    warmup_steps: int = Field(
        default=10, ge=0, description="training steps over which the rate rises linearly; at most a tenth of the run's"
    )
    warmup_from_zero: bool = Field(
        default=False,
        description="warm-up step s (from 0) has s / warmup_steps of the rate, as in the original, so the first step "
        "learns nothing; false: (s + 1) / warmup_steps",
    )
    weight_decay: float = Field(default=0.1, ge=0, description="decoupled weight decay, on every parameter")
    clip_norm: float = Field(default=1.0, gt=0, description="maximum global norm of the gradient")


class PackingConfig(Section):
    """The static shapes that trajectories are packed into."""

    row_length: int = Field(
        default=128, ge=2, description="maximum tokens per row; doubled until every trajectory fits"
    )
    micro_batch_tokens: int = Field(
        default=4096, ge=2, description="tokens (padding included) computed at once by each shard of a batch"
    )
    logit_chunk: int = Field(default=1024, ge=1, description="tokens whose logits exist at once")


class LearnerConfig(Section):
    """One policy: where it differs from the other, and how it learns."""

    model: ModelConfig | None = Field(
        default=None, description="this policy's own model; keys that are not set here come from `model`"
    )
    start: str | None = Field(
        default=None,
        description="start from this model, or from a finished run's policy of the same name; default: `model`",
    )
    temperature: float | None = Field(
        default=None, gt=0, description="softmax temperature of this policy in training; none: that of `rollout`"
    )
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="nucleus of this policy in training; none: that of `rollout`"
    )
    grpo: GRPOConfig = GRPOConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    packing: PackingConfig = PackingConfig()


class WarmStartConfig(Section):
    """Supervised start on noisy transcripts of the micro world."""

    steps: int = Field(default=700, ge=1, description="optimizer updates")
    batch: int = Field(default=32, ge=1, description="transcripts per update")
    code_weight: float = Field(default=2.0, ge=0, description="loss weight of a program's tokens")
    black_box: float = Field(
        default=0.0, ge=0, le=1, description="share of the transcripts without their program, for black-box play"
    )
    optimizer: OptimizerConfig = Field(
        default=OptimizerConfig(learning_rate=3e-3, warmup_steps=20, weight_decay=0.01), description="AdamW, cosine"
    )
    packing: PackingConfig = PackingConfig()
