import secrets
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from codea1_jax.serve.batcher import Piece

Json = dict[str, Any]


class Answer:
    def __init__(self, model: str, prompt_tokens: int, *, chat: bool) -> None:
        self._prompt_tokens, self._completion_tokens = prompt_tokens, 0
        self._chat = chat
        self._choices: defaultdict[int, list[Piece]] = defaultdict(list)
        self._head = {
            "id": ("chatcmpl-" if chat else "cmpl-") + secrets.token_hex(12),
            "created": int(time.time()),
            "model": model,
        }

    def add(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            self._completion_tokens += len(piece.tokens)
            self._choices[piece.choice].append(piece)

    def whole(self) -> Json:
        choices = [self._choice(pieces, first=True) for _, pieces in sorted(self._choices.items())]
        kind = "chat.completion" if self._chat else "text_completion"
        return {**self._head, "object": kind, "choices": choices, "usage": self._usage()}

    def chunk(self, piece: Piece, *, first: bool) -> Json:
        """What one piece adds, as a chunk of a stream; the `first` one of a choice names the role."""
        return self._chunk([self._choice([piece], first=first, delta=True)])

    def usage_chunk(self) -> Json:
        return {**self._chunk([]), "usage": self._usage()}

    def _usage(self) -> Json:
        counts = {"prompt_tokens": self._prompt_tokens, "completion_tokens": self._completion_tokens}
        return {**counts, "total_tokens": sum(counts.values())}

    def _chunk(self, choices: list[Json]) -> Json:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        return {**self._head, "object": kind, "choices": choices}

    def _choice(self, pieces: Sequence[Piece], *, first: bool, delta: bool = False) -> Json:
        text = "".join(piece.text for piece in pieces)
        shared = {"index": pieces[-1].choice, "finish_reason": pieces[-1].finish, "logprobs": None}
        if not self._chat:
            return {**shared, "text": text}
        if not delta:
            return {**shared, "message": {"role": "assistant", "content": text}}
        return {**shared, "delta": {"role": "assistant", "content": text} if first else {"content": text}}


def error_body(message: str, kind: str, code: str | None = None, param: str | None = None) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
