"""Carries plain data between two processes that do not trust each other: exact types, and no code runs on arrival.

A message is one value, written as tokens: what JSON has stands for itself; all else is [kind, parts, more about it...],
with a number instead of the parts if they do not fit: then they follow, one by one or some at a time, {"": parts}.
Tokens travel in frames, JSON arrays of some kilobytes each, so that a message may be as long as memory has room for
what it stands for. An empty frame takes back the message that it breaks off.

Beyond what has a canonical text (see `sandbox.inside.encoding`), iterators of builtin types travel, drained, and a
dict's values. A namedtuple arrives as one of the same name and fields, without its own methods; a defaultdict keeps
its factory if that is a builtin type. The host uses this file as well.
"""

import json
import os
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from sandbox.inside.plain import MAX_DEPTH, NotPlainData, class_name, fields_of, ratio_of, type_name

MAX_FRAME = 4 << 20  # bytes; no honest frame is as long

_FRAME = 1 << 16  # characters, about, after which a frame is sent
_RUN = 1_000  # parts that are looked at, and sent, as one
_SIZE = 16  # characters of a token, about, that is not text
_LARGEST = 1 << 256  # integers from here on are sent in hexadecimal, whose reading takes no longer than they do
_SCALARS = frozenset((type(None), bool, int, float, str))
_FACTORIES = {kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, set, dict)}
_DTYPES = frozenset("biufcSUmM")  # kinds of numpy's types whose items are nothing but bytes

_ITERATORS = (iter([]), iter(()), reversed([]), map(int, ()), zip(), filter(None, ()), enumerate(()), iter(range(0)))
DRAINED = frozenset([type(iterator) for iterator in (*_ITERATORS, iter(set()), iter({}), (_ for _ in ()))])

_Apart = tuple[Any, ...]


class Malformed(Exception):
    """A message that no honest process sends."""


def pack(value: object, drains: bool = True) -> list[Any]:
    """`value` as tokens, what is in its iterators among them if they may be drained. Raises NotPlainData."""
    tokens: list[Any] = []
    packer = _Packer(tokens.extend, drains)
    packer.add(value, MAX_DEPTH + 1)
    packer.flush()
    return tokens


def unpack(tokens: Any) -> Any:
    """The value that was packed. Raises Malformed."""
    unpacker = _Unpacker()
    unpacker.take(tokens)
    if not unpacker.done:
        raise Malformed("parts are missing")
    return unpacker.value


def send(fd: int, message: object) -> None:
    """Write one message. Raises NotPlainData, after which the message counts as not sent, and OSError."""
    packer = _Packer(lambda tokens: _write(fd, _as_json(tokens)))
    try:
        packer.add(message, MAX_DEPTH + 2)
        packer.flush()
    except OSError:
        raise
    except BaseException:
        _write(fd, b"")
        raise


def receive(fd: int) -> Any:
    """Read one message; None at the end of the stream. Raises Malformed, MemoryError and OSError."""
    unpacker = _Unpacker()
    while not unpacker.done:
        frame = _read_frame(fd)
        if frame is None:
            return None
        if frame:
            unpacker.take(_from_json(frame))
        else:
            unpacker = _Unpacker()
    return unpacker.value


def drained(value: object) -> object:
    """The value; of an iterator that can travel, one over all that it gives."""
    return iter(list(value)) if type(value) in DRAINED else value  # type: ignore[call-overload]


class _Packer:
    """Writes a value as tokens, some at a time."""

    def __init__(self, write: Callable[[list[Any]], object], drains: bool = True) -> None:
        self._write = write
        self._drains = drains
        self._tokens: list[Any] = []
        self._size = 0

    def add(self, value: Any, depth: int) -> None:
        """Raises NotPlainData."""
        kind = type(value)
        if kind in _SCALARS and (size := _size_in_json((value,))):
            self._put(value, size)
            return
        if depth == 0:
            raise NotPlainData("nested too deeply")
        name, (count, parts, *about) = self._taken_apart(value, kind)
        left = iter(parts)
        run = list(islice(left, _RUN))
        size = _size_in_json(run)
        if size and len(run) == count:
            self._put([name, run, *about], size + len(str(about)))
            return
        self._put([name, count, *about], _SIZE + len(str(about)))
        while run:
            if size:
                self._put({"": run}, size)
            else:
                for part in run:
                    self.add(part, depth - 1)
            run = list(islice(left, _RUN))
            size = _size_in_json(run)

    def flush(self) -> None:
        """Write what is left."""
        if self._tokens:
            self._write(self._tokens)
            self._tokens, self._size = [], 0

    def _put(self, token: Any, size: int) -> None:
        self._tokens.append(token)
        self._size += size
        if self._size > _FRAME:
            self.flush()

    def _taken_apart(self, value: Any, kind: type) -> tuple[str, _Apart]:
        if kind in DRAINED:
            return "iterator", _all(list(value) if self._drains else [])
        name = type_name(value)
        return name, _TAKEN_APART[name](value)


class _Unpacker:
    """Puts a value together from tokens, some at a time."""

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self._open: list[tuple[Callable[..., Any], int, list[Any], list[Any]]] = []  # from outside: make, count, ...

    def take(self, tokens: Any) -> None:
        """Raises Malformed."""
        try:
            for token in tokens:
                self._take(token)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, ImportError, SyntaxError) as error:
            raise Malformed(f"{type(error).__name__}: {error}") from None

    def _take(self, token: Any) -> None:
        if self.done or len(self._open) > MAX_DEPTH + 4:
            raise ValueError("more than one value, or one nested too deeply")
        if type(token) is list:
            kind, parts, *about = token
            if type(parts) is list:
                self._give(_MAKERS[kind](_scalars(parts), *about))
            else:
                self._open.append((_MAKERS[kind], parts, about, []))
        elif type(token) is dict:
            self._open[-1][3].extend(_scalars(token[""]))
        else:
            self._give(token)
        while self._open and len(self._open[-1][3]) >= self._open[-1][1]:
            make, count, about, parts = self._open.pop()
            if len(parts) > count:
                raise ValueError("too many parts")
            self._give(make(parts, *about))

    def _give(self, value: Any) -> None:
        if self._open:
            self._open[-1][3].append(value)
        else:
            self.value, self.done = value, True


def _size_in_json(parts: Sequence[Any]) -> int:
    """About how many characters the parts take; 0 where JSON does not have them as they are, or they are too long."""
    kinds = set(map(type, parts))
    if not kinds <= _SCALARS:
        return 0
    size = _SIZE * (len(parts) + 1)
    if int in kinds:
        integers = parts if len(kinds) == 1 else [part for part in parts if type(part) is int]
        if min(integers) <= -_LARGEST or max(integers) >= _LARGEST:
            return 0
    if str in kinds:
        size += sum(map(len, parts if len(kinds) == 1 else [part for part in parts if type(part) is str]))
    return size if size <= 2 * _FRAME else 0


def _scalars(parts: Any) -> list[Any]:
    if set(map(type, parts)) <= _SCALARS:
        return parts
    raise ValueError("a part that is not a scalar")


def _all(value: Any) -> _Apart:
    return len(value), value


def _pairs(value: Any) -> _Apart:
    return 2 * len(value), chain.from_iterable(dict.items(value))


def _given(*parts: Any) -> _Apart:
    return len(parts), parts


def _slices(size: int, piece: Callable[[int, int], str]) -> _Apart:
    """A long text, or bytes, as parts that a frame has room for."""
    starts = range(0, size, _FRAME)
    return len(starts), (piece(start, start + _FRAME) for start in starts)


def _text(text: str) -> _Apart:
    return _slices(len(text), lambda start, end: text[start:end])


def _bytes(value: bytes | bytearray) -> _Apart:
    return _slices(len(value), lambda start, end: value[start:end].hex())


def _array(value: Any) -> _Apart:
    """The type, shape and bytes of an array or scalar; if it holds Python objects, those in place of bytes."""
    if value.dtype.kind == "O":
        return value.size, value.flat, "O", value.shape
    if value.dtype.kind not in _DTYPES:
        raise NotPlainData(f"an array of {value.dtype.name}")
    contiguous = value if value.flags.c_contiguous else value.copy()
    data = contiguous.reshape(-1).view("u1") if value.nbytes else value
    slices = _slices(value.nbytes, lambda start, end: data[start:end].tobytes().hex())
    return *slices, value.dtype.str, value.shape


def _defaultdict(value: Any) -> _Apart:
    factory = next((name for name, builtin in _FACTORIES.items() if builtin is value.default_factory), None)
    return *_pairs(value), factory


def _clock(value: Any) -> tuple[Any, ...]:
    return value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo


# For each kind the number of its parts, the parts, and whatever else describes it.
_TAKEN_APART: dict[str, Callable[[Any], _Apart]] = {
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "dict_keys", "dict_values"), _all),
    **dict.fromkeys(("dict", "Counter"), _pairs),
    "dict_items": lambda value: (2 * len(value), chain.from_iterable(value)),
    "OrderedDict": lambda value: (2 * len(value), chain.from_iterable(value.items())),
    "defaultdict": _defaultdict,
    "deque": lambda value: (*_all(value), value.maxlen),
    "namedtuple": lambda value: (*_all(value), class_name(type(value)), " ".join(fields_of(type(value)))),
    "str": _text,
    "int": lambda value: _text(hex(value)),
    "bytes": _bytes,
    "bytearray": _bytes,
    "complex": lambda value: _given(value.real, value.imag),
    "range": lambda value: _given(value.start, value.stop, value.step),
    "Fraction": lambda value: _given(*ratio_of(value)),
    "Decimal": lambda value: _given(str(value)),
    "date": lambda value: _given(value.year, value.month, value.day),
    "time": lambda value: _given(*_clock(value)),
    "datetime": lambda value: _given(value.year, value.month, value.day, *_clock(value)),
    "timedelta": lambda value: _given(value.days, value.seconds, value.microseconds),
    "timezone": lambda value: _given(*value.__getinitargs__()),
    "ndarray": _array,
    "scalar": _array,
}


def _make_dict(parts: list) -> dict:
    left = iter(parts)
    return dict(zip(left, left, strict=True))


def _make_bytes(parts: list) -> bytearray:
    return bytearray().join(map(bytes.fromhex, parts))


@lru_cache(maxsize=256)
def _make_namedtuple(name: str, fields: str) -> Any:
    return namedtuple(name, fields, rename=True)


def _make_in_time(kind: str, parts: list) -> Any:
    *numbers, fold, zone = parts
    return getattr(__import__("datetime"), kind)(*numbers, zone, fold=fold)


def _make_array(parts: list, dtype: str, shape: list[int]) -> Any:
    numpy = __import__("numpy")
    if dtype == "O":
        array = numpy.empty(len(parts), object)
        for i, part in enumerate(parts):
            array[i] = part
        return array.reshape(shape)
    kind = numpy.dtype(dtype)
    if kind.kind not in _DTYPES:  # for example of addresses
        raise ValueError(f"an array of {dtype}")
    array = numpy.ndarray(shape, kind, _make_bytes(parts))
    if kind.kind == "b":
        array.view("u1")[...] = array.view("u1") != 0
    return array


_MAKERS: dict[str, Callable[..., Any]] = {
    "list": lambda parts: parts,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "iterator": iter,
    "dict": _make_dict,
    "dict_keys": lambda parts: dict.fromkeys(parts).keys(),
    "dict_items": lambda parts: _make_dict(parts).items(),
    "dict_values": lambda parts: dict(enumerate(parts)).values(),
    "Counter": lambda parts: Counter(_make_dict(parts)),
    "OrderedDict": lambda parts: OrderedDict(_make_dict(parts)),
    "defaultdict": lambda parts, factory: defaultdict(factory and _FACTORIES[factory], _make_dict(parts)),
    "deque": deque,
    "namedtuple": lambda parts, name, fields: _make_namedtuple(name, fields)._make(parts),
    "str": "".join,
    "int": lambda parts: int("".join(parts), 16),
    "bytes": lambda parts: bytes(_make_bytes(parts)),
    "bytearray": _make_bytes,
    "complex": lambda parts: complex(*parts),
    "range": lambda parts: range(*parts),
    "Fraction": lambda parts: __import__("fractions").Fraction(*parts),
    "Decimal": lambda parts: __import__("decimal").Decimal(*parts),
    "date": lambda parts: __import__("datetime").date(*parts),
    "time": lambda parts: _make_in_time("time", parts),
    "datetime": lambda parts: _make_in_time("datetime", parts),
    "timedelta": lambda parts: __import__("datetime").timedelta(*parts),
    "timezone": lambda parts: __import__("datetime").timezone(*parts),
    "ndarray": _make_array,
    "scalar": lambda parts, dtype, shape: _make_array(parts, dtype, shape)[()],
}


def _as_json(tokens: list[Any]) -> bytes:
    return json.dumps(tokens, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _from_json(frame: bytes) -> Any:
    try:
        return json.loads(frame.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None


def _write(fd: int, frame: bytes) -> None:
    left = memoryview(len(frame).to_bytes(4, "big") + frame)
    while left:
        left = left[os.write(fd, left) :]


def _read_frame(fd: int) -> bytes | None:
    """One frame; None where the stream ends before it does. Raises Malformed."""
    head = _read(fd, 4)
    size = int.from_bytes(head, "big")
    if size > MAX_FRAME:
        raise Malformed("a frame over the size limit")
    frame = _read(fd, size)
    return frame if len(head) == 4 and len(frame) == size else None


def _read(fd: int, size: int) -> bytes:
    """`size` bytes, or fewer if the stream ends before."""
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
