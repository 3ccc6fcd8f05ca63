"""When training state is saved, where, and which checkpoints stay."""

from __future__ import annotations

from pydantic import Field

from codea1_jax.config.section import Section


class CheckpointConfig(Section):
    """When and where all training state is saved."""

    directory: str | None = Field(
        default=None, description="a directory, or gs://bucket/path; default: checkpoints in run.directory"
    )
    every: int = Field(default=10, ge=1, description="training steps between checkpoints")
    keep_last: int = Field(default=2, ge=1, description="newest checkpoints kept")
    keep_best: int = Field(
        default=0, ge=0, description="best checkpoints to keep as well; every evaluated step is then saved"
    )
    keep_every: int = Field(
        default=0,
        ge=0,
        description="steps between checkpoints that are kept for good, to be evaluated as RUN@STEP; also saved "
        "where `every` would not; 0: none",
    )
    best_metric: str = Field(default="eval/avg_at_n", description="evaluation metric that decides which are best")
