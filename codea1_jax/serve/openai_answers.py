"""The answers of OpenAI's completions and chat completions, whole or as a stream of chunks."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codea1_jax.serve.jobs import Piece
from codea1_jax.serve.text import TokenBytes

Json = dict[str, Any]


@dataclass
class Usage:
    """Tokens of a request."""

    prompt: int
    completion: int = 0

    def json(self) -> Json:
        """As OpenAI counts."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        }


@dataclass
class _Choice:
    """One sample so far."""

    text: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    finish: str | None = None

    def add(self, piece: Piece) -> None:
        self.text += piece.text
        self.tokens += piece.token_ids
        self.logprobs += piece.logprobs
        self.offsets += piece.offsets
        self.finish = piece.finish


class Answer:
    """The answer to one request while it comes in. `chat` decides the form.

    echoed: what the samples of each prompt begin with.
    """

    def __init__(
        self,
        *,
        model: str,
        chat: bool,
        prompt_tokens: int,
        logprobs: bool,
        echoed: Sequence[str],
        samples: int,
        bytes_of: TokenBytes,
    ) -> None:
        self.usage = Usage(prompt_tokens)
        self._chat = chat
        self._logprobs = logprobs
        self._echoed = [text for text in echoed for _ in range(samples)]
        self._bytes_of = bytes_of
        self._choices: dict[int, _Choice] = {}
        self._head = {
            "id": ("chatcmpl-" if chat else "cmpl-") + secrets.token_hex(12),
            "created": int(time.time()),
            "model": model,
        }

    def add(self, pieces: Sequence[Piece]) -> None:
        """Takes in what a block brought."""
        for piece in pieces:
            self.usage.completion += len(piece.token_ids)
            self._choices.setdefault(piece.choice, _Choice()).add(piece)

    def whole(self) -> Json:
        """The whole answer."""
        choices = [self._choice(index, choice, first=True) for index, choice in sorted(self._choices.items())]
        kind = "chat.completion" if self._chat else "text_completion"
        return {**self._head, "object": kind, "choices": choices, "usage": self.usage.json()}

    def chunk(self, piece: Piece, *, first: bool) -> Json:
        """What one piece adds, as a chunk of a stream; the `first` one of a choice names the role."""
        added = _Choice()
        added.add(piece)
        return self._chunk([self._choice(piece.choice, added, first=first, delta=True)])

    def usage_chunk(self) -> Json:
        """The chunk that ends a stream whose client wants to know the usage."""
        return {**self._chunk([]), "usage": self.usage.json()}

    def _chunk(self, choices: list[Json]) -> Json:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return {**self._head, "object": kind, "choices": choices}

    def _choice(self, index: int, choice: _Choice, *, first: bool, delta: bool = False) -> Json:
        text = "".join(choice.text)
        shared = {"index": index, "finish_reason": choice.finish, "logprobs": self._logprobs_of(choice)}
        if not self._chat:
            return {**shared, "text": self._echoed[index] + text if first else text}
        if not delta:
            return {**shared, "message": {"role": "assistant", "content": text}}
        return {**shared, "delta": {"role": "assistant", "content": text} if first else {"content": text}}

    def _logprobs_of(self, choice: _Choice) -> Json | None:
        """The logprobs of the sampled tokens, over the whole vocabulary at the sampling temperature.

        A token that is a part of a character is U+FFFD, and has its offset. In a chat its bytes are shown as well.
        """
        if not self._logprobs:
            return None
        texts = [self._bytes_of.text(token) for token in choice.tokens]
        numbers = choice.logprobs
        if not self._chat:
            return {"tokens": texts, "token_logprobs": numbers, "top_logprobs": None, "text_offset": choice.offsets}
        each = [list(self._bytes_of(token)) for token in choice.tokens]
        content = [
            {"token": text, "logprob": number, "bytes": bytes_, "top_logprobs": []}
            for text, number, bytes_ in zip(texts, numbers, each, strict=True)
        ]
        return {"content": content, "refusal": None}


def error_body(message: str, kind: str, code: str | None = None, param: str | None = None) -> Json:
    """An error as OpenAI's clients read it; `param` is the request's parameter that is at fault."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
