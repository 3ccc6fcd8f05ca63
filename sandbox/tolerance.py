"""Comparing values up to a tolerance, on their canonical texts alone.

A tolerance is for plain floats: everything else must be equal as always, and in the same place. Two texts are within a
tolerance if they agree except for numbers, at least one of each differing pair has a fraction, and each pair differs by
at most the larger of `atol` and `rtol` times what is *expected*. Two whole numbers are compared exactly, because the
canonical text of 2.0 is that of the integer 2. So is everything whose text is a digest, and what is not a float: text,
complex numbers, Decimals and Fractions without an equal float, times.

A judged program chooses nothing here but the numbers: a nan or an infinity is close to nothing, what it returns does
not widen the tolerance, and a text that `sandbox.inside.encoding` does not write is close to nothing either.
"""

import math
import re
import sys
from dataclasses import dataclass

from sandbox.inside.encoding import MAX_TEXT, same

# In the order in which they are tried. Only the first group is compared up to the tolerance.
_TOKEN = re.compile(
    r"(-?\d+(?:\.\d+)?(?:e-\d{1,3})?(?![\w./]))"
    r'|b?"(?:[^"\\]|\\.)*"'
    r"|(?:complex|range|date|time|datetime|timedelta|timezone)\([^()\"]*\)"
    r"|sha256:[0-9a-f]{64}|-?\d+/\d+|-?\d+e\d+|-?inf|None|set\(\)|deque|array"
    r"|[\[\](){},:]| ",
    re.ASCII,
)
_FRACTION = re.compile(r"[.e]")


@dataclass(frozen=True)
class Tolerance:
    """The most by which a float may differ from the one expected: the larger of `atol` and `rtol` times the expected.

    Raises ValueError for what is not a number of at least 0 and below infinity.
    """

    atol: float = 0.0
    rtol: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if type(value) not in (int, float) or not 0 <= value <= sys.float_info.max:  # which a nan is not
                raise ValueError(f"{name} must be a number of at least 0 and below infinity, not {value!r}")

    def same(self, value: str, expected: str) -> bool:
        if same(value, expected):
            return True
        # Only what a program has printed, which is never forged, has a long text: see `sandbox.streams`.
        longest = MAX_TEXT if len(expected) <= MAX_TEXT else len(expected) + MAX_TEXT
        is_near = bool(self.atol or self.rtol) and len(value) <= longest
        return is_near and self._close(_tokens(value), _tokens(expected))

    def _close(self, value: list[str] | None, expected: list[str] | None) -> bool:
        if value is None or expected is None or len(value) != len(expected):
            return False
        return all(a == b or self._close_numbers(a, b) for a, b in zip(value, expected, strict=True))

    def _close_numbers(self, value: str, expected: str) -> bool:
        if not (_is_number(value) and _is_number(expected)):
            return False
        if not (_FRACTION.search(value) or _FRACTION.search(expected)):
            return False
        number, expected_number = float(value), float(expected)
        distance = abs(number - expected_number)
        return distance < math.inf and distance <= max(self.atol, self.rtol * abs(expected_number))


EXACT = Tolerance()
FEW_ULPS = Tolerance(rtol=2.0**-46)
"""64 units in the last place: how far the orders of adding up some hundred floats may lie apart."""


def _is_number(token: str) -> bool:
    match = _TOKEN.fullmatch(token)
    return match is not None and match[1] is not None


def _tokens(text: str) -> list[str] | None:
    tokens = [match[0] for match in _TOKEN.finditer(text)]
    return tokens if sum(map(len, tokens)) == len(text) else None
