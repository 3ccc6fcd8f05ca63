"""Which matrices have low-rank adapters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from codea1_jax.config.section import Section

Target = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class LoRAConfig(Section):
    """Which matrices have adapters, and how large they are."""

    rank: int = Field(default=16, ge=1, description="columns of A, rows of B")
    alpha: float = Field(default=32.0, gt=0, description="A B is weighed by alpha / rank")
    targets: tuple[Target, ...] = Field(
        default=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="the matrices of every layer that have adapters",
    )

    @field_validator("targets")
    @classmethod
    def _each_once(cls, targets: tuple[Target, ...]) -> tuple[Target, ...]:
        if len(set(targets)) < len(targets):
            raise ValueError(f"{', '.join(targets)}: one is named twice")
        return targets
