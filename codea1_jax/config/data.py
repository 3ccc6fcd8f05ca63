from pydantic import Field

from codea1_jax.config.model import MicroTask
from codea1_jax.config.section import Section


class DataConfig(Section):
    """Questions to train on and held-out questions to measure by."""

    source: str = Field(
        ...,
        description="'micro', or problems: a file or folder (KodCode, evalplus, JSONL), or what `codea1 data prepare` "
        "wrote; local or in a bucket (gs://...)",
    )
    golden_tests: str | None = Field(
        default=None, description="a file of problems whose tests stand in for the golden tests of the same questions"
    )
    limit: int | None = Field(
        default=None, ge=1, description="train on at most this many questions, chosen by run.seed; default: all"
    )
    problems: int = Field(default=256, ge=1, description="micro: questions in the training pool")
    task: MicroTask = Field(
        default="function",
        description="micro: whether its questions ask for functions, for programs that read standard input (stream), "
        "or for functions of nested conditions, loops and strings (hard)",
    )
    heldout: str | None = Field(
        default=None,
        description="problems to hold out, in any form that `source` takes; questions of `source` with the same "
        "solution are left out",
    )
    heldout_share: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of a file's questions that is held out, chosen by a hash; 0: none. Not used with `heldout`",
    )
    heldout_problems: int = Field(
        default=256,
        ge=0,
        description="held-out questions to evaluate on: micro adds this many; a file gives at most this many, and all "
        "others are trained on",
    )
