"""The outer loop: steps, epochs, questions per step."""

from __future__ import annotations

from pydantic import Field

from codea1_jax.config.section import Section


class TrainConfig(Section):
    """The outer loop."""

    steps: int | None = Field(
        default=None, ge=0, description="training steps; default: as many as the epochs hold; 0: evaluate and save"
    )
    epochs: int = Field(default=3, ge=1, description="passes over the questions when steps is not set")
    questions: int = Field(default=256, ge=1, description="questions per step")
    update_n: int = Field(
        default=1, ge=1, description="the Test LLM learns from at most this many candidates per question"
    )
    async_steps: int = Field(
        default=0,
        ge=0,
        le=1,
        description="1: a step's programs and suites are drawn by the policies from before the last update, and judged "
        "during it (one-step off-policy); needs grpo.importance_cap",
    )
    profile: int | None = Field(
        default=None, ge=1, description="a step that JAX's profiler records into `profile` in run.directory"
    )

    def total_steps(self, questions: int) -> int:
        """Steps of a run on this many questions; an epoch's incomplete last batch is dropped."""
        return self.epochs * (questions // self.questions) if self.steps is None else self.steps
