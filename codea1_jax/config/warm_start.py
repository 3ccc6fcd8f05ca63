"""The supervised start of a model trained from scratch."""

from __future__ import annotations

from pydantic import Field

from codea1_jax.config.learner import OptimizerConfig, PackingConfig
from codea1_jax.config.section import Section


class WarmStartConfig(Section):
    """Supervised start on noisy transcripts of the micro world."""

    steps: int = Field(default=700, ge=1, description="optimizer updates")
    batch: int = Field(default=32, ge=1, description="transcripts per update")
    code_weight: float = Field(default=2.0, ge=0, description="loss weight of a program's tokens")
    test_weight: float = Field(default=0.5, ge=0, description="loss weight of the tokens of a test's call")
    answer_weight: float = Field(default=2.0, ge=0, description="loss weight of the answer that a test states")
    black_box: float = Field(
        default=0.0, ge=0, le=1, description="share of the transcripts without their program, for black-box play"
    )
    optimizer: OptimizerConfig = Field(
        default=OptimizerConfig(learning_rate=3e-3, warmup_steps=20, weight_decay=0.01), description="AdamW, cosine"
    )
    packing: PackingConfig = PackingConfig()
