from typing import Literal

from pydantic import Field

from codea1_jax.config.section import Section

ROUNDS = 5  # tests of a function that pass@5 and mut@5 count


class RunConfig(Section):
    """Identity of a run."""

    directory: str = Field(..., description="where everything the run writes goes")
    seed: int = Field(default=0, ge=0, lt=2**31, description="seed of data order, initial weights and sampling")
    wandb: str | None = Field(default=None, description="Weights & Biases project to log to as well (extra `wandb`)")


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
    refill: int = Field(
        default=0,
        ge=0,
        description="further rounds that a step may play, each on as many new questions, until every policy has as "
        "many groups with differing verdicts as the step has questions; groups that teach nothing are then left out "
        "(DAPO, arXiv 2503.14476)",
    )
    profile: int | None = Field(
        default=None, ge=1, description="a step that JAX's profiler records into `profile` in run.directory"
    )

    def total_steps(self, questions: int) -> int:
        """Steps of a run on this many questions; an epoch's incomplete last batch is dropped."""
        return self.epochs * (questions // self.questions) if self.steps is None else self.steps


class EvalConfig(Section):
    """Evaluation on held-out questions, and of the Code LLM on benchmarks as by `codea1 eval code`."""

    every: int = Field(default=10, ge=0, description="training steps between evaluations; 0: none")
    samples: int = Field(default=8, ge=1, description="programs per question for avg@n and pass@k")
    suites: int = Field(default=2, ge=1, description="suites per question for validity and kill rate")
    datasets: tuple[str, ...] = Field(
        default=(), description="benchmarks whose own checks also score programs (HumanEval+, MBPP+, ...)"
    )
    limits: Literal["ours", "paper"] = Field(
        default="ours",
        description="limits on a program on a benchmark: four times the CPU time of the reference, at least a second "
        "per call; paper: 10 s of wall-clock time, 20 s after the last step (BigCodeBench: 240 s and 30 GiB), as in "
        "the original",
    )
    temperature: float = Field(default=1.0, ge=0, description="softmax temperature")
    top_p: float = Field(default=1.0, gt=0, le=1, description="nucleus of the distribution that is sampled")


class CheckpointConfig(Section):
    """When and where all training state is saved."""

    directory: str | None = Field(
        default=None, description="a directory, or gs://bucket/path; default: checkpoints in run.directory"
    )
    every: int = Field(default=10, ge=1, description="training steps between checkpoints")
    keep_last: int = Field(default=2, ge=1, description="newest checkpoints kept")
    keep_every: int = Field(
        default=0,
        ge=0,
        description="steps between checkpoints that are kept for good, to be evaluated as RUN@STEP; saved "
        "even where `every` would not; 0: none",
    )
