"""Tokens to text while they come: only whole characters, and nothing of a stop string."""

import codecs
import re
from collections.abc import Callable, Sequence
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
        return {character: byte for byte, character in bytes_to_unicode().items()}


class TextStream:
    """The text of one sample. `stopped` is whether a stop string has ended it.

    Text that may be the beginning of a stop string is held back.
    """

    def __init__(self, bytes_of: Callable[[int], bytes], stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._bytes_of = bytes_of
        self._stop = stop
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, tokens: Sequence[int], *, last: bool) -> tuple[str, int]:
        """What can be shown after these tokens, after the last ones all that is left; and how many of them count.

        Tokens behind the one that completes a stop string do not.
        """
        count = 0
        while count < len(tokens) and not self.stopped:
            self._add(self._bytes_of(tokens[count]))
            count += 1
        if last and not self.stopped:
            self._add(b"", final=True)
        released = last or self.stopped
        keep = 0 if released else max((_overlap(self._held, stop) for stop in self._stop), default=0)
        size = len(self._held) - keep
        text, self._held = self._held[:size], self._held[size:]
        return text, count

    def _add(self, new: bytes, *, final: bool = False) -> None:
        self._held += self._decoder.decode(new, final)
        stops = [start for start in map(self._held.find, self._stop) if start >= 0]
        if stops:
            self.stopped = True
            self._held = self._held[: min(stops)]


def _overlap(text: str, stop: str) -> int:
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
