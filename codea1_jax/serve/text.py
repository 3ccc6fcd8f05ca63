"""Tokens to text while they come: only whole characters, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

_BROKEN = "\N{REPLACEMENT CHARACTER}"


class TextStream:
    """The text of one sample. `stopped` is whether a stop string has ended it.

    Tokens of a byte-level vocabulary may hold parts of characters, so those since the last whole character are
    decoded together. Text that may be the beginning of a stop string is held back.
    """

    def __init__(self, decode: Callable[[Iterable[int]], str], stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._decode = decode
        self._stop = stop
        self._tokens: list[int] = []  # since the last whole character
        self._held = ""

    def feed(self, tokens: Iterable[int], *, last: bool) -> str:
        """What can be shown after these tokens; everything that is left after the last ones."""
        if self.stopped:
            return ""
        self._tokens += tokens
        text = self._decode(self._tokens)
        if text.endswith(_BROKEN) and not last:
            text = ""
        else:
            self._tokens = []
        self._held += text
        return self._release(last)

    def _release(self, last: bool) -> str:
        found = [place for place in map(self._held.find, self._stop) if place >= 0]
        if found:
            self.stopped = True
            return self._held[: min(found)]
        keep = 0 if last else max((_overlap(self._held, stop) for stop in self._stop), default=0)
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(shown) :]
        return shown


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a beginning, but not all, of `stop`."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
