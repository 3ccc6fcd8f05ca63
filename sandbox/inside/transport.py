"""Carries plain data between two processes that do not trust each other: exact types, and no code runs on arrival.

A value is packed in JSON's terms: what JSON has stands for itself, all else is [kind, parts, more about it...]. A
message is the JSON of one value behind its length in bytes. Of a long value the parts go ahead, some at a time, and a
number stands for them: so neither side needs much more memory than the value does.

Beyond what has a canonical text (see `sandbox.inside.encoding`), iterators of builtin types travel, drained, and a
dict's values. A namedtuple arrives as one of the same name and fields, without its own methods; a defaultdict keeps
its factory if that is a builtin type. A numpy scalar of few bits arrives as one of 64: numpy compares numbers with
`float16("inf")` in 16 bits, where it equals all over 65,504, and `abs(int8(-128))` is -128. The host uses this file as
well.
"""

import json
import os
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from itertools import chain, count, islice
from typing import Any

from sandbox.inside.plain import MAX_DEPTH, NotPlainData, class_name, fields_of, ratio_of, type_name

_HEAD = 8  # bytes of a number: of the parts that go ahead, 0 for the message itself, and then of the length
_BATCH = 4_096  # parts that go ahead at once
_SHARED = 64  # characters of texts, on average, that arrive as one object wherever they appear
_LARGEST = 1 << 256  # integers from here on are sent in hexadecimal, whose reading takes no longer than they do
_SCALARS, _TEXTS = frozenset((type(None), bool, int, float, str)), frozenset((str,))
_FACTORIES = {kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, set, dict)}
_DTYPES = frozenset("biufcSUmM")  # kinds of numpy's types whose items are nothing but bytes
_WIDER = {
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16", "uint32"), "int64"),
    **dict.fromkeys(("float16", "float32"), "float64"),
    "complex64": "complex128",
}

_ITERATORS = (iter([]), iter(()), reversed([]), map(int, ()), zip(), filter(None, ()), enumerate(()), iter(range(0)))
DRAINED = frozenset([type(iterator) for iterator in (*_ITERATORS, iter(set()), iter({}), (_ for _ in ()))])

# What the makers below raise for parts that no honest process sends.
_FLAWS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, ImportError, SyntaxError, RecursionError)

_numbers = count(1)
_texts: dict[str, str] = {}
_class_of: Callable[..., Any] = lru_cache(maxsize=256)(partial(namedtuple, rename=True))  # of a namedtuple
_integer, _float = lru_cache(maxsize=4_096)(int), lru_cache(maxsize=4_096)(float)
_Ahead = Callable[[int, list | str], None]
_Apart = tuple[Iterable[Any], *tuple[Any, ...]]


class Malformed(Exception):
    """A message that no honest process sends."""


def pack(value: Any, drains: bool = True, depth: int = MAX_DEPTH + 1, ahead: _Ahead | None = None) -> Any:
    """`value` in JSON's terms, what is in its iterators included if they may be drained. Raises NotPlainData.

    ahead: takes the parts of long values, and a number for which such a value has; without it they are all in one.
    """
    if _flat([value]) is not None:
        return value
    if depth == 0:
        raise NotPlainData("nested too deeply")
    kind = type(value)
    if kind in DRAINED:
        name, parts, about = "iterator", list(value) if drains else [], ()
    else:
        name = type_name(value)
        parts, *about = _TAKEN_APART[name](value)

    def packed(some: list) -> list | str:
        flat = _flat(some)
        return [pack(part, drains, depth - 1, ahead) for part in some] if flat is None else flat

    if ahead is None:
        return [name, packed(list(parts)), *about]
    rest = iter(parts)
    batch = list(islice(rest, _BATCH))
    if len(batch) < _BATCH:
        return [name, packed(batch), *about]
    number = next(_numbers)
    while batch:
        ahead(number, packed(batch))
        batch = list(islice(rest, _BATCH))
    return [name, number, *about]


def unpack(packed: Any) -> Any:
    return _checked(_unpack, packed, {})


def _checked(make: Callable[[Any, dict[int, list]], Any], packed: Any, gone_ahead: dict[int, list]) -> Any:
    try:
        return make(packed, gone_ahead)
    except _FLAWS as error:
        raise Malformed(f"{type(error).__name__}: {error}") from None


def _unpack(packed: Any, gone_ahead: dict[int, list]) -> Any:
    if type(packed) is not list:
        if type(packed) in _SCALARS:
            return packed
        raise ValueError("neither a value nor the parts of one")
    kind, parts, *about = packed
    return _MAKERS[kind](gone_ahead.pop(parts) if type(parts) is int else _unpack_parts(parts, gone_ahead), *about)


def _unpack_parts(parts: list | str, gone_ahead: dict[int, list]) -> list:
    if isinstance(parts, str):
        texts = parts.split("\n")
        if len(parts) >= _SHARED * len(texts):
            return texts
        if len(_texts) > _BATCH:
            _texts.clear()
        return list(map(_texts.setdefault, texts, texts))
    return parts if _flat(parts) is not None else [_unpack(part, gone_ahead) for part in parts]


def send(fd: int, message: object) -> None:
    """Write one message. Raises NotPlainData, after which none of it will be received, and OSError."""

    def write(number: int, packed: Any) -> None:
        data = json.dumps(packed, ensure_ascii=False).encode("utf-8", "surrogatepass")
        for part in (number.to_bytes(_HEAD, "big"), len(data).to_bytes(_HEAD, "big"), data):
            unsent = memoryview(part)
            while unsent:
                unsent = unsent[os.write(fd, unsent) :]

    write(0, pack(message, depth=MAX_DEPTH + 2, ahead=write))


def receive(fd: int) -> Any:
    """Read one message; None at the end of the stream. Raises Malformed, MemoryError and OSError."""
    gone_ahead: dict[int, list] = {}
    while True:
        number, size = (int.from_bytes(_read(fd, _HEAD), "big") for _ in range(2))
        data = _read(fd, size)
        if not size or len(data) < size:
            return None
        try:
            numbers: dict[str, Any] = {"parse_int": _integer, "parse_float": _float} if number else {}
            packed = json.loads(data.decode("utf-8", "surrogatepass"), **numbers)
        except (ValueError, RecursionError) as error:
            raise Malformed(str(error)) from None
        if not number:
            return _checked(_unpack, packed, gone_ahead)
        gone_ahead.setdefault(number, []).extend(_checked(_unpack_parts, packed, gone_ahead))


def drained(value: object) -> object:
    """The value; of an iterator that can travel, one over all that it gives."""
    return iter(list(value)) if type(value) in DRAINED else value  # type: ignore[call-overload]


def _flat(parts: Any) -> list | str | None:
    """Parts that JSON has, as they are, or in one text if they are texts of a line; None if JSON lacks one."""
    kinds = set(map(type, parts))
    if kinds == _TEXTS and len(parts) > 1 and (text := "\n".join(parts)).count("\n") == len(parts) - 1:
        return text
    if int in kinds and kinds <= _SCALARS:
        integers = parts if len(kinds) == 1 else [part for part in parts if type(part) is int]
        return parts if min(integers) > -_LARGEST and max(integers) < _LARGEST else None
    return parts if kinds <= _SCALARS else None


def _pairs(value: Any) -> _Apart:
    return (chain.from_iterable(dict.items(value)),)


def _array(value: Any) -> _Apart:
    if value.dtype.kind == "O":
        return value.flat, "O", value.shape
    if value.dtype.kind not in _DTYPES:
        raise NotPlainData(f"an array of {value.dtype.name}")
    return [value.tobytes().hex()], value.dtype.str, value.shape


def _defaultdict(value: Any) -> _Apart:
    factory = next((name for name, builtin in _FACTORIES.items() if builtin is value.default_factory), None)
    return *_pairs(value), factory


def _clock(value: Any) -> tuple[Any, ...]:
    return value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo


# For each kind its parts, and whatever else describes it.
_TAKEN_APART: dict[str, Callable[[Any], _Apart]] = {
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "dict_keys", "dict_values"), lambda value: (value,)),
    **dict.fromkeys(("dict", "Counter"), _pairs),
    "dict_items": lambda value: (chain.from_iterable(value),),
    "OrderedDict": lambda value: (chain.from_iterable(value.items()),),
    "defaultdict": _defaultdict,
    "deque": lambda value: (value, value.maxlen),
    "namedtuple": lambda value: (value, class_name(type(value)), " ".join(fields_of(type(value)))),
    "int": lambda value: ([hex(value)],),
    **dict.fromkeys(("bytes", "bytearray"), lambda value: ([value.hex()],)),
    "complex": lambda value: ((value.real, value.imag),),
    "range": lambda value: ((value.start, value.stop, value.step),),
    "Fraction": lambda value: (ratio_of(value),),
    "Decimal": lambda value: ([str(value)],),
    "date": lambda value: ((value.year, value.month, value.day),),
    "time": lambda value: (_clock(value),),
    "datetime": lambda value: ((value.year, value.month, value.day, *_clock(value)),),
    "timedelta": lambda value: ((value.days, value.seconds, value.microseconds),),
    "timezone": lambda value: (value.__getinitargs__(),),
    "ndarray": _array,
    "scalar": _array,
}


def _make_dict(parts: list) -> dict:
    keys_and_items = iter(parts)
    return dict(zip(keys_and_items, keys_and_items, strict=True))


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
    array = numpy.ndarray(shape, kind, bytearray.fromhex(*parts))
    if kind.kind == "b":
        array.view("u1")[...] = array.view("u1") != 0
    return array


def _widened(scalar: Any) -> Any:
    return scalar.astype(_WIDER.get(scalar.dtype.name, scalar.dtype))


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
    "namedtuple": lambda parts, name, fields: _class_of(name, fields)._make(parts),
    "int": lambda parts: int(parts[0], 16),
    "bytes": lambda parts: bytes.fromhex(*parts),
    "bytearray": lambda parts: bytearray.fromhex(*parts),
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
    "scalar": lambda parts, dtype, shape: _widened(_make_array(parts, dtype, shape)[()]),
}


def _read(fd: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
