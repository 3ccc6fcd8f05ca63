"""Tokens to text while they come: only whole characters, and nothing of a stop string."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from transformers.convert_slow_tokenizer import bytes_to_unicode

from codea1_jax.models.tokenizer import Tokenizer

_BROKEN = "\N{REPLACEMENT CHARACTER}"
_BYTE = re.compile("<0x([0-9A-F]{2})>")


class TokenBytes:
    """The bytes that each token stands for: it may be only a part of a character. A special token stands for none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, bytes] = {}
        self._before = list(tokenizer.encode("a"))  # some decoders drop a space from the beginning of a text
        self._skipped = len(tokenizer.decode(self._before))

    def __call__(self, token: int) -> bytes:
        if token not in self._known:
            self._known[int(token)] = self._find(token)
        return self._known[token]

    def text(self, token: int) -> str:
        """The token by itself; U+FFFD where it is part of a character."""
        return self(token).decode("utf-8", "replace")

    def _find(self, token: int) -> bytes:
        text = self._tokenizer.decode([*self._before, token])[self._skipped :]
        if _BROKEN not in text:
            return text.encode()
        written = str(self._tokenizer.hf.convert_ids_to_tokens(int(token)))
        if byte := _BYTE.fullmatch(written):
            return bytes([int(byte[1], 16)])
        if self._alphabet.keys() >= set(written):
            return bytes(self._alphabet[character] for character in written)
        return text.encode()

    @cached_property
    def _alphabet(self) -> dict[str, int]:
        """In which vocabularies of bytes are written."""
        return {character: byte for byte, character in bytes_to_unicode().items()}


class TextStream:
    """The text of one sample. `stopped` is whether a stop string has ended it.

    Text that may be the beginning of a stop string is held back, and with it its tokens.
    """

    def __init__(self, bytes_of: Callable[[int], bytes], stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._bytes_of = bytes_of
        self._stop = stop
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._shown = 0  # characters
        self._held = ""  # the text that follows them
        self._tokens: deque[tuple[int, int]] = deque()  # that are not shown, and where each begins in the text

    def feed(self, tokens: Iterable[int], *, last: bool) -> tuple[str, list[tuple[int, int]]]:
        """What can be shown after these tokens; everything that is left after the last ones.

        The text, and the tokens that it is of, with the place in the sample's text where each begins. Tokens at whose
        beginning a stop string has begun belong to no text.
        """
        if self.stopped:
            return "", []
        for token in tokens:
            self._add(token, self._bytes_of(token))
        if last:
            self._held += self._decoder.decode(b"", final=True)
        return self._release(last)

    def _add(self, token: int, new: bytes) -> None:
        begun, first = self._decoder.getstate()[0], new[:1]
        # Whatever was begun and is not continued is broken; the token begins in the last character of these bytes.
        broken = max(len((begun + first).decode("utf-8", "replace")) - 1, 0)
        self._tokens.append((token, self._shown + len(self._held) + broken))
        self._held += self._decoder.decode(new)

    def _release(self, last: bool) -> tuple[str, list[tuple[int, int]]]:
        stops = [start for start in map(self._held.find, self._stop) if start >= 0]
        self.stopped = bool(stops)
        keep = 0 if last else max((_overlap(self._held, stop) for stop in self._stop), default=0)
        size = min(stops) if stops else len(self._held) - keep
        text, self._held = self._held[:size], self._held[size:]
        self._shown += size
        shown = []
        while self._tokens and (self._tokens[0][1] < self._shown or (last and not self.stopped)):
            shown.append(self._tokens.popleft())
        return text, shown


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a beginning, but not all, of `stop`."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
