"""When and how a run is evaluated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from codea1_jax.config.section import Section


class EvalConfig(Section):
    """Evaluation on held-out questions, and of the Code LLM on benchmarks as by `codea1 eval code`."""

    every: int = Field(default=10, ge=0, description="training steps between evaluations; 0: none")
    samples: int = Field(default=8, ge=1, description="programs per question for avg@n and pass@k")
    suites: int = Field(default=2, ge=1, description="suites per question for validity and kill rate")
    datasets: tuple[str, ...] = Field(
        default=(), description="benchmarks by whose own checks programs are scored too (HumanEval+, MBPP+, ...)"
    )
    limits: Literal["ours", "paper"] = Field(
        default="ours",
        description="of a program on a benchmark: four times the CPU time of the reference, at least a second a call; "
        "paper: 10 s of the clock, 20 s after the last step (BigCodeBench: 240 s and 30 GiB), as in the original",
    )
    temperature: float = Field(default=1.0, ge=0, description="softmax temperature")
    top_p: float = Field(default=1.0, gt=0, le=1, description="nucleus of the distribution that is sampled")
