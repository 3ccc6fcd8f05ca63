"""What a run is called and where it writes."""

from __future__ import annotations

from pydantic import Field

from codea1_jax.config.section import Section


class RunConfig(Section):
    """Identity of a run."""

    directory: str = Field(..., description="where everything the run writes goes")
    seed: int = Field(default=0, ge=0, lt=2**31, description="seed of data order, initial weights and sampling")
    wandb: str | None = Field(default=None, description="Weights & Biases project to log to as well (extra `wandb`)")
