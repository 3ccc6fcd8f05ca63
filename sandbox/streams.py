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
MAX_CHECKED = 1 << 20  # the same of one that a checker reads

_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,308})", re.ASCII)  # as long as a float can be
_FRACTION = re.compile(r"-?\d{1,300}(?:\.\d{0,300}(?:[eE][+-]?\d{1,3})?|[eE][+-]?\d{1,3})", re.ASCII)
_INPUT_TOKEN = re.compile(r"(?:(?<!\w)[+-])?(?<!\w)\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?(?!\w)|\w+|[^\w\s]")
_BLANK = re.compile(r"\s")
_SPLIT_AT_ONCE = 1 << 16  # characters: the list of all tokens of an output may take twenty times its memory


def text_of(value: str) -> str:
    """An output of this canonical text, a token a line; the canonical text of one that is too long to be read."""
    try:
        return "\n".join(map(str, ast.literal_eval(parse_expression(value))))
    except (SyntaxError, TypeError):  # it is, or holds, a digest
        return value


def encode_stated(text: str, task: Task, *, as_printed: bool = False) -> str | None:
    """The canonical text of a test's stated answer, found without running anything; None where it must be computed."""
    return encode_output(text, as_printed=as_printed) if task is Task.STREAM else encode_literal(text)


def spelled(given: str, expected: str) -> str:
    given, expected = given.removesuffix("\n"), expected.removesuffix("\n")
    return f"```input\n{given}\n```\n```output\n{expected}\n```"


def input_identity(text: str) -> str:
    """The same text for inputs of the same numbers, words and punctuation, whatever their spelling and blanks."""
    return " ".join(map(_plain_number, _INPUT_TOKEN.findall(text)))


def encode_output(text: str, *, as_printed: bool = False) -> str:
    spaced = _spaced(text)
    if as_printed and len(spaced) <= MAX_CHECKED:
        return ascii(spaced.split())
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
