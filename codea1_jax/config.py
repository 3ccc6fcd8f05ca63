"""Everything a run can be told, as one typed tree. Sections stand beside what they configure where they can."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from codea1_jax.game.rewards import RewardConfig
from codea1_jax.game.warm_start import WarmStartConfig
from codea1_jax.learn import GRPOConfig, OptimizerConfig, PackingConfig
from codea1_jax.methods import METHODS, MethodConfig
from codea1_jax.models.lora import LoRAConfig
from codea1_jax.models.sharding import MeshConfig
from codea1_jax.run.config import Section
from codea1_jax.run.hosts import HostsConfig
from codea1_jax.run.keep import CheckpointConfig
from codea1_jax.run.offload import OffloadConfig


class ArchitectureConfig(Section):
    """Shape of a Qwen2 model trained from scratch; the vocabulary is the tokenizer's."""

    hidden_size: int = Field(default=96, ge=8, description="width of the residual stream")
    intermediate_size: int = Field(default=256, ge=8, description="width of the feed-forward layer")
    num_layers: int = Field(default=4, ge=1, description="decoder layers")
    num_heads: int = Field(default=4, ge=1, description="query heads")
    num_kv_heads: int = Field(default=2, ge=1, description="key/value heads")
    head_dim: int = Field(default=24, ge=2, description="width of one head")
    rope_theta: float = Field(default=10_000.0, gt=0, description="base of the rotary embedding")


class ModelConfig(Section):
    """Where both policies start from: a pretrained directory or Hub id, or an architecture trained here."""

    pretrained: str | None = Field(default=None, description="local directory or Hub id of a Qwen2 model")
    architecture: ArchitectureConfig | None = Field(default=None, description="shape of a model trained from scratch")
    compute_dtype: Literal["float32", "bfloat16"] = Field(default="bfloat16", description="type of activations")
    remat: Literal["none", "full", "dots"] = Field(default="none", description="what the backward pass recomputes")
    attention: Literal["auto", "xla", "splash", "flash"] = Field(
        default="auto",
        description="kernel of training and prefill; auto: splash on TPU, flash on CUDA in bfloat16, else xla",
    )

    @model_validator(mode="after")
    def _one_source(self) -> ModelConfig:
        if (self.pretrained is None) == (self.architecture is None):
            raise ValueError("set exactly one of model.pretrained and model.architecture")
        return self

    @model_validator(mode="after")
    def _flash_is_for_half_precision(self) -> ModelConfig:
        if self.attention == "flash" and self.compute_dtype != "bfloat16":
            raise ValueError("attention: flash needs compute_dtype: bfloat16; set that, or attention: auto")
        return self


class DataConfig(Section):
    """Questions to train on and held-out questions to measure by."""

    source: str = Field(
        ...,
        description="'micro', or problems: a file or folder (KodCode, evalplus, JSONL), or what `codea1 data prepare` "
        "wrote; here or in a bucket (gs://...)",
    )
    golden_tests: str | None = Field(
        default=None, description="a file of problems whose tests stand in for the golden tests of the same questions"
    )
    problems: int = Field(default=256, ge=1, description="micro: questions in the training pool")
    heldout_share: float = Field(
        default=0.1, ge=0, lt=1, description="share of a file's questions that is held out, chosen by a hash; 0: none"
    )
    heldout_problems: int = Field(
        default=256,
        ge=0,
        description="held-out questions evaluated on: of micro this many more; of a file at most this many, and all "
        "others are trained on",
    )


class RolloutConfig(Section):
    """How both models are sampled."""

    samples: int = Field(default=8, ge=2, description="n: programs per question")
    suites: int = Field(default=8, ge=2, description="m: test suites per program")
    temperature: float = Field(default=1.0, gt=0, description="softmax temperature")
    top_p: float = Field(default=1.0, gt=0, le=1, description="nucleus of the distribution that is sampled")
    code_prompt_tokens: int = Field(default=4096, ge=1, description="longer Code LLM prompts are filtered out")
    test_prompt_tokens: int = Field(default=8192, ge=1, description="longer Test LLM prompts are filtered out")
    code_tokens: int = Field(default=4096, ge=1, description="longest program response")
    test_tokens: int = Field(default=4096, ge=1, description="longest suite response")
    groups: int = Field(default=64, ge=1, description="prompts decoded at once, each with its samples")
    prefill_tokens: int = Field(default=8192, ge=1, description="prompt tokens in one prefill, about")
    engine: Literal["core", "jetstream"] = Field(
        default="core",
        description="what the sampler drives: the rollout's programs, or the same ones as a JetStream engine (extra "
        "`jetstream`); both draw the same tokens",
    )
    share_programs: bool = Field(
        default=False, description="identical programs of a question share one set of suites (departure)"
    )


class TrainConfig(Section):
    """The outer loop."""

    steps: int | None = Field(
        default=None, ge=0, description="training steps; default: as many as the epochs hold; 0: evaluate and save"
    )
    epochs: int = Field(default=3, ge=1, description="passes over the questions when steps is not set")
    questions: int = Field(default=256, ge=1, description="questions per step")
    update_n: int = Field(
        default=1, ge=1, description="at most this many candidates per question are learned from by the Test LLM"
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
        default=(), description="benchmarks by whose own checks programs are scored too (HumanEval+, MBPP+, ...)"
    )
    temperature: float = Field(default=1.0, ge=0, description="softmax temperature")
    top_p: float = Field(default=1.0, gt=0, le=1, description="nucleus of the distribution that is sampled")


class SandboxConfig(Section):
    """The judge."""

    backend: Literal["auto", "nsjail", "process", "http", "sandbox_fusion"] = Field(
        default="auto",
        description="auto: nsjail, or stop and say what is missing; process: no jail, by name only; http: hosts that "
        "run `codea1 sandbox serve`; sandbox_fusion: SandboxFusion services, WEAKER: nothing but what such a service "
        "does by itself keeps programs from each other and from its host",
    )
    addresses: tuple[Annotated[str, StringConstraints(pattern="^https?://[^/]")], ...] = Field(
        default=(),
        description="http, sandbox_fusion: where the services are, as http://host:port; jobs go to them in turn",
    )
    fallback: Literal["none", "process"] = Field(
        default="none", description="process: where backend=auto finds no jail, continue without one, with a warning"
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        description="jails kept; default: seven for every eight cores, the rest for JAX. With services: jobs at "
        "once, default 16",
    )
    call_seconds: float = Field(default=1.0, gt=0, description="CPU time of one call")
    memory_mb: int = Field(default=1024, ge=64, description="address space of one program")
    preload: tuple[str, ...] = Field(
        default=(),
        description="packages of this environment that programs may import, loaded once per jail (numpy, ...); a "
        "service preloads its own (`codea1 sandbox serve --preload`)",
    )

    @model_validator(mode="after")
    def _addresses_where_services_judge(self) -> SandboxConfig:
        remote = self.backend in ("http", "sandbox_fusion")
        if remote and not self.addresses:
            raise ValueError(f"backend={self.backend} needs sandbox.addresses=[http://host:port, ...]")
        if self.addresses and not remote:
            raise ValueError(f"addresses are for backend=http or sandbox_fusion; backend={self.backend} judges here")
        if self.preload and remote:
            raise ValueError(f"backend={self.backend} judges elsewhere: preload there")
        return self


class RunConfig(Section):
    """Identity of a run."""

    directory: str = Field(..., description="where everything the run writes goes")
    seed: int = Field(default=0, ge=0, lt=2**31, description="seed of data order, initial weights and sampling")
    wandb: str | None = Field(default=None, description="Weights & Biases project to log to as well (extra `wandb`)")


class LearnerConfig(Section):
    """How one policy learns."""

    start: str | None = Field(
        default=None,
        description="a finished run, whose policy of the same name this one starts from, or a model; default: `model`",
    )
    grpo: GRPOConfig = GRPOConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    packing: PackingConfig = PackingConfig()


class Config(Section):
    """One training run."""

    run: RunConfig
    method: MethodConfig = MethodConfig()
    model: ModelConfig
    lora: LoRAConfig | None = Field(
        default=None, description="train adapters of every policy over one frozen base, instead of all parameters"
    )
    mesh: MeshConfig = MeshConfig()
    hosts: HostsConfig = HostsConfig()
    hardware: str | None = Field(
        default=None, description="what it is laid out for, as `codea1 plan --topology` names it: v5e:4x4, h100:8"
    )
    warm_start: WarmStartConfig | None = Field(default=None, description="for a model trained from scratch")
    warm_start_cache: str = Field(default=".cache/warm_start", description="finished warm starts, by content hash")
    data: DataConfig
    prompts: Literal["plain", "chat"] = Field(default="chat", description="plain text (micro), or the chat template")
    rollout: RolloutConfig = RolloutConfig()
    rewards: RewardConfig = RewardConfig()
    code: LearnerConfig = LearnerConfig()
    test: LearnerConfig = LearnerConfig()
    train: TrainConfig = TrainConfig()
    eval: EvalConfig = EvalConfig()
    sandbox: SandboxConfig = SandboxConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    offload: OffloadConfig = OffloadConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> Config:
        if self.warm_start is not None and self.model.architecture is None:
            raise ValueError("warm_start: a pretrained model needs none; remove it or set model.architecture")
        if self.prompts == "chat" and self.model.architecture is not None:
            raise ValueError("prompts=chat needs the chat template of model.pretrained; use prompts=plain")
        if self.lora is not None and self.offload.reference:
            raise ValueError("offload.reference: under lora the reference is the base, which is always at work")
        if self.lora is not None and (self.code.start or self.test.start):
            raise ValueError("start: under lora every policy starts from the one base; leave it out")
        for name, settings in (("code", self.code), ("test", self.test)):
            if settings.start is not None and name not in METHODS[self.method.name].policies:
                raise ValueError(
                    f"{name}.start: method.name={self.method.name} trains no policy of that name; leave it out"
                )
        if self.checkpoint.keep_best and not self.eval.every:
            raise ValueError("checkpoint.keep_best: nothing says which is best; set eval.every")
        return self
