"""A Hugging Face tokenizer in the form that JetStream asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codea1_jax.models.tokenizer import Tokenizer
from codea1_jax.rollout.capacity import bucket_of
from codea1_jax.rollout.jetstream.shims import tokenizer_api


class EngineTokenizer(tokenizer_api.Tokenizer):
    """Nothing is added to a text: Qwen2 has no token to begin with."""

    def __init__(self, tokenizer: Tokenizer, buckets: tuple[int, ...]) -> None:
        self._tokenizer = tokenizer
        self._buckets = buckets

    def encode(self, s: str, **kwargs: Any) -> tuple[np.ndarray, int]:
        """Padded tokens and how many there are. Raises ValueError for a text that is longer than any bucket."""
        tokens = self._tokenizer.encode(s)
        return self.pad(tokens), len(tokens)

    def pad(self, tokens: Sequence[int]) -> np.ndarray:
        """Tokens padded on the right to the smallest bucket that holds them. Raises ValueError if none does."""
        padded = np.full(bucket_of(len(tokens), self._buckets), self.pad_id, np.int32)
        padded[: len(tokens)] = tokens
        return padded

    def decode(self, token_ids: list[int], **kwargs: Any) -> str:
        """The text of whole sequences; a token alone may be part of a character."""
        return self._tokenizer.decode(token_ids)

    @property
    def pad_id(self) -> int:
        """Fills prompts up to their bucket."""
        return self._tokenizer.pad_id

    @property
    def eos_id(self) -> int:
        """The first of the tokens that end a response."""
        return self._tokenizer.eos_ids[0]

    @property
    def bos_id(self) -> int:
        """JetStream asks for one; no prompt gets it."""
        return self._tokenizer.pad_id

    @property
    def stop_tokens(self) -> set[int]:
        """All tokens that end a response."""
        return set(self._tokenizer.eos_ids)
