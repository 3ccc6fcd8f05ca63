from typing import Literal

from pydantic import Field, model_validator

from codea1_jax.config.section import Section

MicroTask = Literal["function", "stream", "hard"]


class ArchitectureConfig(Section):
    """Architecture of a model trained from scratch; the vocabulary is the tokenizer's."""

    family: str = Field(default="qwen2", description="family of models whose decoder it is: qwen2, qwen3, ...")
    hidden_size: int = Field(default=96, ge=8, description="width of the residual stream")
    intermediate_size: int = Field(default=256, ge=8, description="width of the feed-forward layer")
    num_layers: int = Field(default=4, ge=1, description="decoder layers")
    num_heads: int = Field(default=4, ge=1, description="query heads")
    num_kv_heads: int = Field(default=2, ge=1, description="key/value heads")
    head_dim: int = Field(default=24, ge=2, description="width of one head")
    words: MicroTask = Field(
        default="function",
        description="which words of the micro world its tokenizer has and its warm start teaches: functions, "
        "programs that read standard input (stream), or functions of nested conditions, loops and strings (hard)",
    )


class ModelConfig(Section):
    """What a policy starts from: a pretrained directory or Hub id, or an architecture trained here."""

    pretrained: str | None = Field(default=None, description="local directory or Hub id of a model")
    architecture: ArchitectureConfig | None = Field(default=None, description="shape of a model trained from scratch")
    compute_dtype: Literal["float32", "bfloat16"] = Field(default="bfloat16", description="type of activations")
    remat: Literal["none", "full", "dots"] = Field(
        default="none", description="what the backward pass recomputes, besides parts of attention"
    )
    attention: Literal["auto", "xla"] = Field(
        default="auto",
        description="kernel of training and prefill; auto: a flash kernel on TPU, and on CUDA in bfloat16 for heads of "
        "at most 128, else xla",
    )
    enable_thinking: bool | None = Field(
        default=None,
        description="whether the model thinks before it answers, if its chat template asks (Qwen3, SmolLM3); none: the "
        "template's default",
    )

    @model_validator(mode="after")
    def _one_source(self) -> "ModelConfig":
        if (self.pretrained is None) == (self.architecture is None):
            raise ValueError("set exactly one of model.pretrained and model.architecture")
        return self


class LoRAConfig(Section):
    """Adapters for every attention and feed-forward matrix, and their size."""

    rank: int = Field(default=16, ge=1, description="columns of A, rows of B")
    alpha: float = Field(default=32.0, gt=0, description="A B is scaled by alpha / rank")
