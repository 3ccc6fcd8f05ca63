"""Facts that the statement of a competition's problem states in words."""

import re

from sandbox import EXACT, Tolerance

_DASH = r"[-\u2212\u2013]"
# 10^{-6}, 10**-6, 10<sup>-6</sup>, 10 - 6 (a superscript that was lost), 1e-6, 0.000001
_SMALL = (
    rf"(?:\b10\s*(?:\^|\*\*|<sup>)?\s*[{{(]?\s*{_DASH}\s*(\d{{1,2}})\b"
    rf"|\b1(?:\.0+)?[eE]{_DASH}(\d{{1,2}})\b|\b0\.(0*)1\b(?!\.\d))"
)
_GAP = r"(?:[^.]|\.(?!\s)){0,120}?"  # within a sentence
_KIND = r"(?:\b(?:absolute|relative)\b[^.]{0,40}?){0,2}"
_ERRORS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_KIND}\berrors?\b{_GAP}{_SMALL}",
        rf"{_SMALL}[^.]{{0,60}}?\b(?:absolute|relative)\b[^.]{{0,40}}?\berrors?\b",
        rf"\bwithin\s+(?:\$\s*)?{_SMALL}(?=[^.]{{0,40}}\b(?:of|from)\b)",
    )
)
_SEVERAL = re.compile(
    r"\b(?:print|output|report|display)\s+any(?:\s*[.,;)]|\s+(?:of|one|valid|such|possible|correct|suitable|answer)\b)"
    r"|\bany\s+(?:\w+\s+){0,3}(?:answers?|solutions?|outputs?|them)\b[^.]{0,30}\b(?:accepted|allowed|correct)\b"
    r"|\b(?:several|multiple|many|more\s+than\s+one)\s+(?:\w+\s+){0,2}(?:answers?|solutions?|outputs?)\b[^.]{0,60}\bany\b"
    r"|\b(?:print|output)\b[^.]{0,80}\bin\s+any\s+order\b",
    re.IGNORECASE,
)
_ANY_CASE = re.compile(
    r"\b(?:letters?|characters?|answers?|words?|yes|no|print|output)\b[^.]{0,60}\bin\s+any\s+(?:case|register)\b"
    r"|\bany\s+case\s*\((?:upper|lower)|\bcase[\s-]insensitive\b",
    re.IGNORECASE,
)
_ANY_OTHER = re.compile(
    r"\breturn\b[^.]{0,80}\bin\s+any\s+order\b"
    r"|(?<!not )(?<!n't )\b(?:print|output|return)\s+any\s+(?:number|integer|string|list|array|permutation|pair)\b",
    re.IGNORECASE,
)
_INTERACTIVE = re.compile(r"\binteractive\s+(?:problem|task)\b", re.IGNORECASE)
_SUPERSCRIPTS = str.maketrans("\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079", "-0123456789")


def stated_tolerance(statement: str) -> Tolerance:
    """The error that a statement allows, such as "absolute or relative error of 10^-6"; EXACT where it names none.

    Where the error is only absolute, or only relative, so is the tolerance; of several errors the first counts.
    """
    for pattern in _ERRORS:
        if match := pattern.search(statement.translate(_SUPERSCRIPTS)):
            words = match[0].lower()
            power, exponent, zeros = match.groups()
            error = float(f"1e-{len(zeros) + 1 if zeros is not None else power or exponent}")
            absolute, relative = "absolute" in words, "relative" in words
            return Tolerance(error if absolute or not relative else 0.0, error if relative or not absolute else 0.0)
    return EXACT


def why_not_compared(statement: str) -> str | None:
    """Why the output of a right program may differ from the stated one; None if the statement names no reason."""
    if _INTERACTIVE.search(statement):
        return "it is interactive"
    if match := _SEVERAL.search(statement):
        return f"it accepts several answers, and a test states one: {match[0]!r}"
    return None


def not_equality(statement: str) -> str | None:
    """The words by which a statement allows answers besides the stated one; None where it does not."""
    match = _SEVERAL.search(statement) or _ANY_CASE.search(statement) or _ANY_OTHER.search(statement)
    return match and match[0]
