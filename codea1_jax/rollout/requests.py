import math
from dataclasses import dataclass

LEAST_TEMPERATURE = 1e-5  # a smaller one spreads logits so far that float32's rounding of them would decide


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. Filters apply as in the field: temperature, then top-k, then top-p of what is
    left.

    temperature: 0 is greedy, and so is all that is below LEAST_TEMPERATURE.
    top_k: keep the k likeliest tokens; 0 keeps all.
    top_p: keep the likeliest tokens until their probability reaches top_p; 1 keeps all.
    Tokens tied with the last one kept are kept too.
    """

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens={self.max_new_tokens} must be at least 1")
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature={self.temperature} must be a finite number that is not negative")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} must be in (0, 1]")
        if self.top_k < 0:
            raise ValueError(f"top_k={self.top_k} must not be negative")

    @property
    def greedy(self) -> bool:
        return self.temperature < LEAST_TEMPERATURE


@dataclass(frozen=True)
class Request:
    """`samples` completions of one prompt.

    stream: the request's identity for random numbers, such as (step, question, program). Requests with the
        same stream, prompt and seed get the same completions.
    limits: the most tokens of each sample; empty: the sampling's alone.
    seed: of its random numbers; None: the sampler's.
    first: the number of its first sample, where a prompt's samples come in several requests.
    """

    prompt: tuple[int, ...]
    stream: tuple[int, ...]
    samples: int
    limits: tuple[int, ...] = ()
    seed: int | None = None
    first: int = 0

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError(f"request {self.stream}: the prompt is empty")
        if self.samples < 1:
            raise ValueError(f"request {self.stream}: samples={self.samples} must be at least 1")
        if self.limits and (len(self.limits) != self.samples or min(self.limits) < 1):
            raise ValueError(f"request {self.stream}: limits must be {self.samples} numbers of at least 1")


@dataclass(frozen=True)
class Completion:
    """One sample.

    tokens: the new tokens, the end-of-sequence token included if there is one.
    logprobs: log-softmax of `logits / temperature` at each token, over the whole vocabulary, that is *before*
        top-k and top-p; greedy samples take temperature 1. At temperature 1 these are the policy's own
        logprobs.
    finished: whether it ended by an end-of-sequence token; False if it was cut at `max_new_tokens`.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: bool
