"""The requests of OpenAI's completions and chat completions. What is not supported is refused, never ignored."""

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from jinja2 import TemplateError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from codea1_jax.config.refusals import describe
from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.serve.orders import BadRequest, Limits, Order, sampling_of

Neutral = Annotated[float, Field(ge=0, le=0)]  # a number that may only switch the feature off
One = Annotated[float, Field(ge=1, le=1)]  # the same of a factor

# What clients of other servers send and this one does not do; a value that changes nothing is accepted.
UNSUPPORTED = {
    "min_p": "min_p is not supported: use top_p or top_k",
    "frequency_penalty": "penalties are not supported: leave it at 0",
    "presence_penalty": "penalties are not supported: leave it at 0",
    "repetition_penalty": "penalties are not supported: leave it at 1",
    "echo": "repeating the prompt is not supported: put it before the answer",
    "logprobs": "logprobs are not supported: leave it out",
    "top_logprobs": "logprobs are not supported: leave it out",
    "best_of": "choosing among samples is not supported: `codea1 solve` lets tests choose",
    "logit_bias": "changing logits is not supported: leave it empty",
}
MOST_STOPS, LONGEST_STOP = 32, 256  # they are looked for while tokens of everybody are decoded


class _Part(BaseModel):
    """A null is the same as an absence, also of what this server does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


class StreamOptions(_Part):
    include_usage: bool = False


class TextPart(_Part):
    type: Literal["text"]
    text: str


class ChatMessage(_Part):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None

    def plain(self) -> dict[str, str]:
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": "system" if self.role == "developer" else self.role, "content": content}


class GenerationRequest(_Part):
    """What both kinds of request have in common. `top_k` is an extension that other servers have too; -1 is all."""

    model: str
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=100)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=-1, lt=2**31)
    n: int = Field(default=1, ge=1, le=128)
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    frequency_penalty: Neutral = 0
    presence_penalty: Neutral = 0
    repetition_penalty: One = 1
    min_p: Neutral = 0
    logit_bias: dict[str, float] = Field(default={}, max_length=0)

    def stops(self) -> tuple[str, ...]:
        stops = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        if "" in stops:
            raise BadRequest("stop: an empty string stops nothing", "stop")
        if len(stops) > MOST_STOPS or max(map(len, stops), default=0) > LONGEST_STOP:
            raise BadRequest(f"stop: at most {MOST_STOPS} strings of {LONGEST_STOP} characters are looked for", "stop")
        return stops


class CompletionRequest(GenerationRequest):
    prompt: str | list[int] | list[str] | list[list[int]]
    echo: Literal[False] = False

    def prompts(self, tokenizer: Tokenizer, limits: Limits) -> list[tuple[int, ...]]:
        given: Any = self.prompt
        prompts = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
        limits.check_texts(["" if isinstance(prompt, list) else prompt for prompt in prompts])
        return [tokenizer.encode_prompt(prompt) if isinstance(prompt, str) else tuple(prompt) for prompt in prompts]

    def longest(self, limits: Limits) -> int:
        """New tokens at most; by default OpenAI's own number."""
        return self.max_tokens or 16


class ChatRequest(GenerationRequest):
    messages: list[ChatMessage] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: Literal[False] = False

    def prompts(self, tokenizer: Tokenizer, limits: Limits) -> list[tuple[int, ...]]:
        """The conversation in tokens. Raises BadRequest if the model has no chat template, or it refuses the turns."""
        if tokenizer.hf.chat_template is None:
            raise BadRequest("this model has no chat template; use /v1/completions")
        messages = [message.plain() for message in self.messages]
        limits.check_texts([message["content"] for message in messages])
        try:
            return [tokenizer.encode_chat(messages)]
        except (TemplateError, TypeError, ValueError) as error:
            raise BadRequest(f"messages: the model's chat template refuses them: {error}", "messages") from error

    def longest(self, limits: Limits) -> int:
        """New tokens at most; by default as many as the server gives."""
        return self.max_completion_tokens or self.max_tokens or limits.response


R = TypeVar("R", bound=GenerationRequest)


def parse(kind: type[R], body: bytes) -> R:
    """A request from its JSON. Raises BadRequest, naming the first field that is wrong."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "value_error":  # our own, which names the field
            message = describe(first)
            raise BadRequest(message, message.partition(":")[0]) from error
        field, param = ".".join(map(str, first["loc"])) or "the body", str(first["loc"][0]) if first["loc"] else None
        known = "is not a parameter of this server" if first["type"] == "extra_forbidden" else describe(first)
        raise BadRequest(f"{field}: {UNSUPPORTED.get(param or '', known)}", param) from error


def orders_of(
    request: CompletionRequest | ChatRequest, prompts: Sequence[tuple[int, ...]], limits: Limits
) -> list[Order]:
    """The orders that the request amounts to: every prompt's n samples, as many to a slot as it holds.

    With a seed, the samples depend on it, the prompt, the numbers of the request and nothing else.
    """
    sampling = sampling_of(request.longest(limits), request.temperature, request.top_p, max(request.top_k, 0))
    seed = secrets.randbits(62) if request.seed is None else request.seed
    stop = request.stops()
    return [
        Order(
            prompt,
            sampling,
            seed,
            stream=(number,),
            samples=min(limits.samples, request.n - first),
            first=first,
            choice=number * request.n + first,
            stop=stop,
        )
        for number, prompt in enumerate(prompts)
        for first in range(0, request.n, limits.samples)
    ]
