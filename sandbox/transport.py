"""Carries plain data between two processes that do not trust each other: exact types, and no code runs on arrival.

The form is JSON; what JSON lacks is a one-item object that names its type. Runs inside the jail as well.
"""

import json
import os
from typing import Any

from sandbox.encoding import MAX_DEPTH, NotPlainData, scalar_of

MAX_FRAME = 64 << 20  # bytes of one message

_JSON_INT_BITS = 4_096  # Python refuses to print integers over 4300 digits in decimal
_ITERATORS = (iter([]), iter(()), reversed([]), map(int, ()), zip(), filter(None, ()), (_ for _ in ()))
_NAMES = {tuple: "tuple", set: "set", frozenset: "frozenset"} | {type(kind): "iterator" for kind in _ITERATORS}
_MAKERS = {"tuple": tuple, "set": set, "frozenset": frozenset, "iterator": iter}


class Malformed(Exception):
    """A message that no honest process sends."""


def pack(value: object, depth: int = MAX_DEPTH) -> Any:
    """`value` in JSON's terms. Iterators of builtin types are drained. Raises NotPlainData."""
    kind = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if isinstance(value, int) and kind is int:
        return value if value.bit_length() <= _JSON_INT_BITS else {"int": hex(value)}
    if depth == 0:
        raise NotPlainData("nested too deeply")
    return _pack_other(value, kind, depth - 1)


def _pack_other(value: Any, kind: type, depth: int) -> Any:
    if kind is list:
        return [pack(item, depth) for item in value]
    if kind is dict:
        return {"dict": [[pack(key, depth), pack(item, depth)] for key, item in value.items()]}
    name = _NAMES.get(kind)
    if name is not None:
        return {name: [pack(item, depth) for item in value]}
    if kind is bytes:
        return {"bytes": value.decode("latin-1")}
    if kind is complex:
        return {"complex": [value.real, value.imag]}
    return pack(scalar_of(value), depth)


def unpack(packed: Any) -> Any:
    """The value that was packed. Raises Malformed."""
    try:
        if isinstance(packed, list):
            return [unpack(item) for item in packed]
        if not isinstance(packed, dict):
            return packed
        ((kind, content),) = packed.items()
        return _unpack_other(kind, content)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Malformed(str(error)) from None


def _unpack_other(kind: str, content: Any) -> Any:
    if kind == "dict":
        return {unpack(key): unpack(item) for key, item in content}
    if kind == "bytes":
        return content.encode("latin-1")
    if kind == "int":
        return int(content, 16)
    if kind == "complex":
        return complex(*content)
    return _MAKERS[kind]([unpack(item) for item in content])


def send(fd: int, message: Any) -> None:
    """Write one message, already in JSON's terms."""
    data = json.dumps(message).encode("ascii")
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(fd, data) :]


def receive(fd: int) -> Any:
    """Read one message; None at the end of the stream. Raises Malformed."""
    head = _read(fd, 4)
    size = int.from_bytes(head, "big")
    if not head:
        return None
    if size > MAX_FRAME:
        raise Malformed("a message over the size limit")
    try:
        return json.loads(_read(fd, size))
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None


def _read(fd: int, size: int) -> bytes:
    """`size` bytes, or nothing if the stream ends before."""
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
