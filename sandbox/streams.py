"""Tests of programs that read standard input and write standard output.

A test is the text that is put in, where a function's has a call, and the text that must come out. Outputs are compared
as online judges compare them: token by token, however these are spaced, numbers by their value. So the canonical text
of an output (see `sandbox.inside.encoding`) is that of the list of its tokens, in which a whole number without leading
zeros, and a decimal fraction, is a number, and everything else is text.
"""

import ast
import hashlib
import math
import re
from contextlib import suppress

from sandbox.inside.encoding import encode
from sandbox.jobs import Task
from sandbox.language import encode_literal
from sandbox.syntax import parse_expression

MAX_COMPARED = 1 << 16  # characters of an output; of a longer one the digest stands for its tokens as they are written

_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,308})", re.ASCII)  # as long as a float can be
_FRACTION = re.compile(r"-?\d{1,300}(?:\.\d{0,300}(?:[eE][+-]?\d{1,3})?|[eE][+-]?\d{1,3})", re.ASCII)
_BLANK = re.compile(r"\s")
_SPLIT_AT_ONCE = 1 << 16  # characters: the list of all tokens of an output may take twenty times its memory


def text_of(value: str) -> str | None:
    """An output of this canonical text, a token a line; None of one that is too long."""
    if not value.startswith("["):
        return None
    text = "\n".join(map(str, ast.literal_eval(parse_expression(value))))
    return text if encode_output(text) == value else None


def normal_input(text: str) -> str:
    """An input with a line break at its end, and without blanks at the ends of its lines or empty lines at its own."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return "\n".join(lines).rstrip("\n") + "\n"


def encode_stated(text: str, task: Task) -> str | None:
    """The canonical text of a test's stated answer, found without running anything; None where it must be computed."""
    return encode_output(text) if task is Task.STREAM else encode_literal(text)


def spelled(given: str, expected: str) -> str:
    return "\n".join((_fenced("input", given), _fenced("output", expected)))


def _fenced(label: str, text: str) -> str:
    body = text.removesuffix("\n")
    return f"```{label}\n{body}\n```"


def input_identity(text: str) -> str:
    """The same text for inputs that differ in nothing but blanks, line breaks, and how numbers are spelled."""
    return " ".join(map(_plain_number, text.split()))


def encode_output(text: str) -> str:
    spaced = _spaced(text)
    if len(spaced) > MAX_COMPARED:
        return f"sha256:{hashlib.sha256(spaced.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return f"[{', '.join(map(_encoded, spaced.split()))}]"


def _spaced(text: str) -> str:
    parts, start = [], 0
    while start < len(text):
        blank = _BLANK.search(text, start + _SPLIT_AT_ONCE)
        end = blank.start() if blank else len(text)
        parts.append(" ".join(text[start:end].split()))
        start = end
    return " ".join(filter(None, parts))


def _encoded(token: str) -> str:
    if _WHOLE.fullmatch(token):
        return "0" if token == "-0" else token
    if _FRACTION.fullmatch(token) and math.isfinite(number := float(token)):
        return encode(number)
    return encode(token)


def _plain_number(token: str) -> str:
    """A number in one spelling, where Python reads many: 7 as 007, +7, 7.0, 7e0, 0_7 and in any script's digits."""
    with suppress(ValueError):
        return str(int(token))
    with suppress(ValueError):
        return encode(number) if math.isfinite(number := float(token)) else token
    return token
