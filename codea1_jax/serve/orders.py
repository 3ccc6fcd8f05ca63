"""What a client asks for, checked before it reaches the engine, where a mistake would end the service."""

from collections.abc import Sequence
from dataclasses import dataclass

from codea1_jax.rollout.requests import Sampling


class BadRequest(ValueError):
    """A request that cannot be served as it is; the message explains why. `param`: the one at fault, if one is."""

    def __init__(self, message: str, param: str | None = None, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.param, self.status, self.code = param, status, code


class Busy(RuntimeError):
    """Too many requests wait already."""


@dataclass(frozen=True)
class Order:
    """Samples of one prompt that share the prompt's keys and values.

    seed, stream, first: a sample's random numbers are those of (seed, stream, first + its index).
    choice: the number of the first sample in the answer.
    stop: texts before which a sample is cut.
    """

    prompt: tuple[int, ...]
    sampling: Sampling
    seed: int = 0
    stream: tuple[int, ...] = ()
    samples: int = 1
    first: int = 0
    choice: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, in tokens, and how many orders may wait.

    vocabulary: ids of the tokenizer.
    samples: of one order. characters: of the longest text that may have as few tokens as a prompt.
    """

    prompt: int
    response: int
    vocabulary: int
    samples: int
    waiting: int
    characters: int

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raises BadRequest for what cannot fit, before it is turned into tokens."""
        if len(texts) > self.waiting:
            raise BadRequest(f"{len(texts)} texts in a request; this server takes at most {self.waiting}", "prompt")
        if (longest := max(map(len, texts), default=0)) > self.characters:
            raise BadRequest(f"a prompt of {longest} characters has more tokens than this server takes", "prompt")

    def check(self, order: Order) -> None:
        if not order.prompt:
            raise BadRequest("the prompt is empty", "prompt")
        if len(order.prompt) > self.prompt:
            raise BadRequest(
                f"the prompt has {len(order.prompt)} tokens; this server takes at most {self.prompt}", "prompt"
            )
        foreign = [token for token in order.prompt if not 0 <= token < self.vocabulary]
        if foreign:
            raise BadRequest(f"token {foreign[0]} is not in the vocabulary of {self.vocabulary}", "prompt")
        max_tokens = order.sampling.max_new_tokens
        if max_tokens > self.response:
            raise BadRequest(
                f"max_tokens={max_tokens} is more than the {self.response} tokens this server gives", "max_tokens"
            )


def sampling_of(max_new_tokens: int, temperature: float, top_p: float = 1.0, top_k: int = 0) -> Sampling:
    """A sampling as the client asked for it. Raises BadRequest for numbers out of range."""
    try:
        return Sampling(max_new_tokens, temperature, top_p, top_k)
    except ValueError as error:
        raise BadRequest(str(error).replace("max_new_tokens", "max_tokens")) from error
