from typing import Literal

from pydantic import Field

from codea1_jax.config.section import Section


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
    rows: int = Field(default=512, ge=1, description="samples decoded at once, on each replica of the mesh")
    cache_tokens: int | None = Field(
        default=None,
        ge=1,
        description="tokens whose keys and values fit at once, on each replica of the mesh; none: enough for all rows. "
        "When they run out, the youngest sample waits and is sampled again later",
    )
    block: Literal[8, 16, 32, 64, 128] = Field(
        default=8,
        description="tokens decoded between two visits of the host, and tokens in a page of the cache; 32 suits "
        "accelerators",
    )
    prefill_tokens: int = Field(default=8192, ge=1, description="prompt tokens in a full prefill of one device")
    engine: Literal["core", "jetstream"] = Field(
        default="core",
        description="what the sampler drives: the rollout's programs, or the same ones as a JetStream engine (extra "
        "`jetstream`); both draw the same tokens",
    )
    share_programs: bool = Field(
        default=False, description="identical programs of a question share one set of suites (departure)"
    )
