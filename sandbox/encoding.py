"""The canonical text of a plain-data value: equal text if and only if the values are equal by Python's
``==``.

Plain data is None, bool, int, float, complex, str, bytes, and list / tuple / set / frozenset / dict of
these, by exact type; numpy scalars count as the Python value of their ``item()``. The text is printable
ASCII and reads like a Python literal: 1, True and 1.0 are ``1``; -0.0 is ``0``; sets and dicts are
sorted; a list never equals a tuple, nor str bytes. A nan equals nothing: the text of a value that holds
one begins with ``nan``, and `same` is false for it.

This file also runs inside the jail, so it imports only the standard library and nothing of this package.
"""

import math
import sys
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 100
MAX_NODES = 200_000
MAX_TEXT = 2_000  # characters; a longer text is replaced by its digest

_INT_BITS_IN_DECIMAL = 4_096  # Python refuses to print integers over 4300 digits in decimal


class NotPlainData(ValueError):
    """The value, or a part of it, is not plain data, is nested over `MAX_DEPTH`, or has over `MAX_NODES`
    parts.
    """


def encode(value: object) -> str:
    """The canonical text of `value`, or its digest ``sha256:...`` where the text passes `MAX_TEXT`
    characters.

    Raises NotPlainData.
    """
    encoder = _Encoder()
    text = encoder.text(value, MAX_DEPTH)
    if len(text) > MAX_TEXT:
        import hashlib  # noqa: PLC0415  (slow to load and seldom needed in the jail)

        text = "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()
    return "nan in " + text if encoder.has_nan and text != "nan" else text


def same(first: str, second: str) -> bool:
    """Whether two canonical texts stand for equal values."""
    return first == second and not first.startswith("nan")


def scalar_of(value: object) -> object:
    """The Python value of a numpy scalar. Raises NotPlainData for anything else."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        item: object = value.item()  # type: ignore[attr-defined]
        if type(item) in _SCALARS:
            return item
    raise NotPlainData(f"a value of type {type(value).__name__}")


class _Encoder:
    """One encoding: counts the parts seen and notes whether any of them is a nan."""

    def __init__(self) -> None:
        self.nodes = 0
        self.has_nan = False

    def text(self, value: Any, depth: int) -> str:
        kind = type(value)
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise NotPlainData("too many parts")
        scalar = _SCALARS.get(kind)
        if scalar is not None:
            return scalar(self, value)
        if depth == 0:
            raise NotPlainData("nested too deeply")
        container = _CONTAINERS.get(kind)
        if container is not None:
            return container(self, value, depth - 1)
        return self.text(scalar_of(value), depth)

    def of_integer(self, value: int) -> str:
        return str(value) if value.bit_length() <= _INT_BITS_IN_DECIMAL else hex(value)

    def of_real(self, value: float) -> str:
        if math.isnan(value):
            self.has_nan = True
            return "nan"
        return str(int(value)) if value.is_integer() else repr(value)

    def of_complex(self, value: complex) -> str:
        real = self.of_real(value.real)
        return f"complex({real}, {self.of_real(value.imag)})" if value.imag else real

    def of_list(self, value: list, depth: int) -> str:
        return "[" + self._items(value, depth) + "]"

    def of_tuple(self, value: tuple, depth: int) -> str:
        return "(" + self._items(value, depth) + (",)" if len(value) == 1 else ")")

    def of_set(self, value: set | frozenset, depth: int) -> str:
        return "{" + ", ".join(sorted([self.text(item, depth) for item in value])) + "}" if value else "set()"

    def of_dict(self, value: dict, depth: int) -> str:
        pairs = [(self.text(key, depth), self.text(item, depth)) for key, item in value.items()]
        return "{" + ", ".join([f"{key}: {item}" for key, item in sorted(pairs)]) + "}"

    def _items(self, value: list | tuple, depth: int) -> str:
        return ", ".join([self.text(item, depth) for item in value])


def _quoted(value: str) -> str:
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    return '"' + _double_quoted(ascii('"' + value)[2:-1]) + '"'


def _quoted_bytes(value: bytes) -> str:
    return 'b"' + _double_quoted(repr(b'"' + value)[3:-1]) + '"'


def _double_quoted(body: str) -> str:
    """Turn the inside of a single-quoted literal into that of a double-quoted one."""
    return body.replace("\\'", "'").replace('"', '\\"')


_SCALARS: dict[type, Callable[[_Encoder, Any], str]] = {
    type(None): lambda encoder, value: "None",
    bool: lambda encoder, value: "1" if value else "0",
    int: _Encoder.of_integer,
    float: _Encoder.of_real,
    complex: _Encoder.of_complex,
    str: lambda encoder, value: _quoted(value),
    bytes: lambda encoder, value: _quoted_bytes(value),
}
_CONTAINERS: dict[type, Callable[[_Encoder, Any, int], str]] = {
    list: _Encoder.of_list,
    tuple: _Encoder.of_tuple,
    set: _Encoder.of_set,
    frozenset: _Encoder.of_set,
    dict: _Encoder.of_dict,
}
