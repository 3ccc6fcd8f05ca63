"""The canonical text of a plain-data value: equal text if and only if the values are equal by Python's ``==``.

Plain data, by exact type, is None, bool, int, float, complex, Decimal, Fraction, str, bytes, bytearray, range, list,
tuple, set, frozenset, dict, a dict's keys and items, Counter, OrderedDict, defaultdict, deque, namedtuples, date, time,
datetime, timedelta, timezone, and numpy's arrays and scalars. The text is printable ASCII and reads like a Python
literal: 1, True and Decimal("1.0") are ``1``; -0.0 is ``0``; sets and dicts are sorted; a list never equals a tuple,
nor str bytes. A nan equals nothing: the text of a value that holds one begins with ``nan``, and `same` is false for it.

Python's ``==`` is not transitive, and a text stands for one class of values. Where they part, the text is that of
comparing with a literal, which is what tests do:
- a Counter and an OrderedDict are the dict that they hold: two Counters that differ in counts of 0, and two
  OrderedDicts in another order, are compared as dicts;
- an array equals arrays of its shape with equal items, and no list; one without dimensions is its item; a numpy scalar
  is the Python value of its ``item()``;
- a nan is not equal to itself within a container either;
- a Decimal over 10**100000, or as near to 0, equals no number of another type.

The host uses this file as well: both sides must write the same text.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from sandbox.inside.plain import MAX_DEPTH, NotPlainData, offset_of, python_value, ratio_of, type_name

MAX_TEXT = 2_000  # characters; the longer text of a value, or of a part of one, is replaced by its digest

_BLOCK = 1_000  # items that are written out at once; the text of more of them is longer than MAX_TEXT
_FEW = 20  # items that are sooner written than counted by type
_SLICE = 1 << 16  # characters of a text that are quoted at once
_INT_BITS = 4_096  # of those written in decimal: Python refuses to print integers over 4300 digits
_LARGEST = (1 << _INT_BITS) - 1
_FLOAT_DIGITS, _FLOAT_EXPONENTS = 53, 1_075  # most bits of the two parts of a float that is not an integer
_DECIMAL_DIGITS = 100_000  # before or after the point, up to which a Decimal is compared with other numbers
_ARRAY_ITEMS = frozenset("biufcSUO")  # kinds of dtype whose items have Python values


def encode(value: object) -> str:
    """The canonical text of `value`; ``sha256:...`` stands for a text, or that of a part, over `MAX_TEXT` characters.

    Memory is needed for one part of the text at a time. Raises NotPlainData.
    """
    encoder = _Encoder()
    text = encoder.text(value, MAX_DEPTH)
    return "nan in " + text if encoder.has_nan and text != "nan" else text


def same(first: str, second: str) -> bool:
    return first == second and not first.startswith("nan")


class _Encoder:
    def __init__(self) -> None:
        self.has_nan = False

    def text(self, value: Any, depth: int) -> str:
        scalar = _SCALARS.get(type(value))
        if scalar is not None:
            return scalar(self, value)
        if depth == 0:
            raise NotPlainData("nested too deeply")
        container = _CONTAINERS.get(type(value))
        if container is not None:
            return container(self, value, depth - 1)
        name = type_name(value)
        if name not in _OTHERS:
            raise NotPlainData(f"a value of type {name}")
        return _OTHERS[name](self, value, depth - 1)

    def of_integer(self, value: int) -> str:
        if -_LARGEST <= value <= _LARGEST:
            return str(value)
        return _digest(["int ", value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)])

    def of_real(self, value: float) -> str:
        if math.isnan(value):
            self.has_nan = True
            return "nan"
        return str(int(value)) if value.is_integer() else repr(value)

    def of_complex(self, value: complex) -> str:
        real = self.of_real(value.real)
        return f"complex({real}, {self.of_real(value.imag)})" if value.imag else real

    def of_text(self, value: str) -> str:
        if len(value) > MAX_TEXT:
            return _digest(chain(['"'], map(_quoted, _slices(value))))
        return _short(f'"{_quoted(value)}"')

    def of_bytes(self, value: bytes | bytearray) -> str:
        if len(value) > MAX_TEXT:
            return _digest(chain(['b"'], map(_quoted_bytes, _slices(value))))
        return _short(f'b"{_quoted_bytes(value)}"')

    def of_tuple(self, value: tuple, depth: int) -> str:
        return self.in_order("(", value, ",)" if len(value) == 1 else ")", depth)

    def of_set(self, value: Any, depth: int) -> str:
        return self._sorted((self.text(item, depth) for item in value), len(value)) if value else "set()"

    def of_dict(self, value: dict, depth: int) -> str:
        pairs = dict.items(value)  # whatever a subclass has made of it
        return self._sorted((f"{self.text(key, depth)}: {self.text(item, depth)}" for key, item in pairs), len(pairs))

    def of_range(self, value: range, depth: int) -> str:
        if not value:
            return "range(0)"
        first, last = value[0], value[-1]
        step = value.step if first != last else 1
        return _short(f"range({', '.join(map(self.of_integer, (first, last + step, step)))})")

    def of_ratio(self, numerator: int, denominator: int) -> str:
        """A rational number in lowest terms, written as a float is where there is one that equals it."""
        if denominator == 1:
            return self.of_integer(numerator)
        is_float = denominator & (denominator - 1) == 0 and denominator.bit_length() <= _FLOAT_EXPONENTS
        if is_float and numerator.bit_length() <= _FLOAT_DIGITS:
            return repr(numerator / denominator)
        return _short(f"{self.of_integer(numerator)}/{self.of_integer(denominator)}")

    def of_decimal(self, value: Any, depth: int) -> str:
        if not value.is_finite():
            return self.of_real(math.nan if value.is_nan() else float(value))
        if value and abs(value.adjusted()) > _DECIMAL_DIGITS:
            sign, digits, exponent = value.as_tuple()
            text = "".join(map(str, digits))
            significant = text.rstrip("0")
            return _short(f"{'-' if sign else ''}{significant}e{exponent + len(text) - len(significant)}")
        return self.of_ratio(*value.as_integer_ratio())

    def of_array(self, value: Any, depth: int) -> str:
        if value.dtype.kind not in _ARRAY_ITEMS:
            raise NotPlainData(f"an array of {value.dtype.name}")
        if not value.shape:
            return self.text(value.item(), depth)
        blocks = (value.flat[start : start + _BLOCK].tolist() for start in range(0, value.size, _BLOCK))
        return self._written(f"array({value.shape}, [", blocks, "])", value.size, depth)

    def in_order(self, opening: str, value: Any, closing: str, depth: int) -> str:
        if len(value) <= _BLOCK:
            return _short(opening + self._items(value, depth) + closing)
        return self._written(opening, _blocks(value), closing, len(value), depth)

    def _written(self, opening: str, blocks: Iterable[Any], closing: str, size: int, depth: int) -> str:
        texts = (self._items(block, depth) for block in blocks)
        if size <= _BLOCK:
            return _short(opening + "".join(texts) + closing)
        return _digest(chain([opening], (text + ", " for text in texts), [closing]))

    def _sorted(self, texts: Iterator[str], size: int) -> str:
        if size <= _BLOCK:
            return _short("{" + ", ".join(sorted(texts)) + "}")
        from hashlib import sha256  # noqa: PLC0415  (slow to load and seldom needed in the jail)

        digests = (sha256(text.encode("ascii")).digest() for text in texts)
        return _digest([f"{{{size}: {sum(map(int.from_bytes, digests))}"])  # a sum is the same in any order

    def _items(self, block: Any, depth: int) -> str:
        many = len(block) > _FEW
        if many and set(map(type, block)) == {int} and min(block) >= -_LARGEST and max(block) <= _LARGEST:
            return ", ".join(map(str, block))
        return ", ".join(
            [
                _SCALARS[kind](self, item) if (kind := type(item)) in _SCALARS else self.text(item, depth)
                for item in block
            ]
        )


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else _digest([text])


def _digest(pieces: Iterable[str | bytes]) -> str:
    import hashlib  # noqa: PLC0415  (slow to load and seldom needed in the jail)

    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece.encode("ascii") if isinstance(piece, str) else piece)
    return "sha256:" + digest.hexdigest()


def _blocks(items: Iterable[Any]) -> Iterator[list]:
    remaining = iter(items)
    while block := list(islice(remaining, _BLOCK)):
        yield block


def _slices(text: Any) -> Iterator[Any]:
    return (text[start : start + _SLICE] for start in range(0, len(text), _SLICE))


def _moment(kind: str, value: Any, days: int) -> str:
    """A time, or a datetime on the day that has this number; in a timezone, what counts is when that is in UTC."""
    if value.tzinfo is None:
        return f"{kind}({value.isoformat()})"
    offset = offset_of(value.tzinfo)
    seconds = (days - offset.days) * 86_400 + value.hour * 3_600 + value.minute * 60 + value.second - offset.seconds
    return f"{kind}(utc {seconds * 1_000_000 + value.microsecond - offset.microseconds})"


def _duration(value: Any) -> str:
    return f"{value.days}, {value.seconds}, {value.microseconds}"


def _quoted(value: str) -> str:
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return value
    return _double_quoted(ascii('"' + value)[2:-1])


def _quoted_bytes(value: bytes | bytearray) -> str:
    return _double_quoted(repr(b'"' + value)[3:-1])


def _double_quoted(body: str) -> str:
    return body.replace("\\'", "'").replace('"', '\\"')


_SCALARS: dict[type, Callable[[_Encoder, Any], str]] = {
    type(None): lambda encoder, value: "None",
    bool: lambda encoder, value: "1" if value else "0",
    int: _Encoder.of_integer,
    float: _Encoder.of_real,
    complex: _Encoder.of_complex,
    str: _Encoder.of_text,
    bytes: _Encoder.of_bytes,
}
_CONTAINERS: dict[type, Callable[[_Encoder, Any, int], str]] = {
    list: lambda encoder, value, depth: encoder.in_order("[", value, "]", depth),
    tuple: _Encoder.of_tuple,
    set: _Encoder.of_set,
    frozenset: _Encoder.of_set,
    dict: _Encoder.of_dict,
}
_OTHERS: dict[str, Callable[[_Encoder, Any, int], str]] = {
    "namedtuple": _Encoder.of_tuple,
    "deque": lambda encoder, value, depth: encoder.in_order("deque([", value, "])", depth),
    **dict.fromkeys(("Counter", "OrderedDict", "defaultdict"), _Encoder.of_dict),
    **dict.fromkeys(("dict_keys", "dict_items"), _Encoder.of_set),
    "bytearray": lambda encoder, value, depth: encoder.of_bytes(value),
    "range": _Encoder.of_range,
    "Fraction": lambda encoder, value, depth: encoder.of_ratio(*ratio_of(value)),
    "Decimal": _Encoder.of_decimal,
    "scalar": lambda encoder, value, depth: encoder.text(python_value(value), depth),
    "ndarray": _Encoder.of_array,
    "date": lambda encoder, value, depth: f"date({value.isoformat()})",
    "time": lambda encoder, value, depth: _moment("time", value, 0),
    "datetime": lambda encoder, value, depth: _moment("datetime", value, value.toordinal()),
    "timedelta": lambda encoder, value, depth: f"timedelta({_duration(value)})",
    "timezone": lambda encoder, value, depth: f"timezone({_duration(offset_of(value))})",
}
