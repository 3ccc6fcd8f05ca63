"""What only looks like plain data is none, and nothing of it is run to find out."""

import datetime
import sys
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy
import pytest

from sandbox.inside.encoding import encode
from sandbox.inside.plain import NotPlainData


class Refuses:
    """Nothing may be done with it but to look at its type."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise AssertionError("a method of the value was called")

    __eq__ = __hash__ = __iter__ = __len__ = __repr__ = __str__ = __bool__ = __getattribute__ = _refuse  # type: ignore
    __int__ = __float__ = __index__ = __getitem__ = __contains__ = __reduce_ex__ = __array__ = _refuse  # type: ignore


def refusing(kind: type) -> Any:
    """A subclass of a plain type, with whose values nothing may be done either."""
    return type(f"My{kind.__name__}", (Refuses, kind), {})


class MyFraction(Fraction):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Point(namedtuple("Point", "x y")):
    x = property(lambda self: 7)  # type: ignore[assignment]


class Equal(NamedTuple):
    x: int

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Shown(NamedTuple):
    x: int

    def __iter__(self) -> Iterator[int]:
        return iter([7])


class Fields(tuple):
    _fields = ("x",)
    x = property(lambda self: 7)


class Changed(NamedTuple):
    x: int


Changed.x = property(lambda self: 7)  # type: ignore[assignment]


class Zone(datetime.tzinfo):
    def utcoffset(self, when: object) -> datetime.timedelta:
        return datetime.timedelta(0)


class Offset(datetime.timedelta):
    days = property(lambda self: 1 / 0)  # type: ignore[assignment]


class Number(IntEnum):
    ONE = 1


def imitation(name: str, module: str, *bases: type) -> Any:
    return type(name, (Refuses, *bases), {"__module__": module, "__qualname__": name})()


def array_of(value: object) -> numpy.ndarray:
    array = numpy.array([None])
    array[0] = value
    return array


def broken(numerator: object, denominator: object) -> Fraction:
    fraction = Fraction(1, 2)
    fraction._numerator, fraction._denominator = numerator, denominator  # type: ignore[attr-defined]
    return fraction


NOT_PLAIN = {
    "Counter": lambda: Counter.__new__(refusing(Counter)),
    "OrderedDict": refusing(OrderedDict),
    "defaultdict": lambda: refusing(defaultdict)(int),
    "deque": lambda: refusing(deque)([1]),
    "int": lambda: refusing(int)(1),
    "Decimal": lambda: refusing(Decimal)(1),
    "Fraction": lambda: MyFraction(1),
    "date": lambda: refusing(datetime.date)(2020, 1, 1),
    "bytearray": lambda: refusing(bytearray)(b"a"),
    "numpy scalar": lambda: refusing(numpy.float64)(1),
    "array": lambda: numpy.zeros(2).view(refusing(numpy.ndarray)),
    "matrix": lambda: numpy.zeros((1, 1)).view(numpy.matrix),
    "object in an array": lambda: array_of(Refuses()),
    "namedtuple's subclass": lambda: Point(1, 2),
    "NamedTuple with its own equality": lambda: Equal(1),
    "NamedTuple that shows other items": lambda: Shown(1),
    "NamedTuple with a changed field": lambda: Changed(1),
    "namedtuple of another length": lambda: tuple.__new__(namedtuple("P", "x y"), (1, 2, 3)),
    "tuple with fields": lambda: Fields((1,)),
    "imitation of Counter": lambda: imitation("Counter", "collections", dict),
    "imitation of Decimal": lambda: imitation("Decimal", "decimal"),
    "imitation of Fraction": lambda: imitation("Fraction", "fractions"),
    "imitation of an array": lambda: imitation("ndarray", "numpy"),
    "imitation of a scalar": lambda: imitation("generic", "numpy"),
    "Fraction of an object": lambda: broken(Refuses(), 2),
    "Fraction by zero": lambda: broken(1, 0),
    "own timezone": lambda: datetime.datetime(2020, 1, 1, tzinfo=Zone()),
    "own offset": lambda: datetime.time(1, tzinfo=datetime.timezone(Offset(hours=1))),
    "own timezone's offset": lambda: datetime.timezone(Offset(hours=1)),
    "ZoneInfo": lambda: datetime.datetime(2020, 1, 1, tzinfo=ZoneInfo("UTC")),
    "enumeration": lambda: Number.ONE,
    "dict's values": {}.values,
    "OrderedDict's keys": lambda: OrderedDict().keys(),
    "memoryview": lambda: memoryview(b"a"),
    "datetime64": lambda: numpy.datetime64("2020-01-01"),
    "array of datetime64": lambda: numpy.zeros(1, "M8[ns]"),
    "records": lambda: numpy.zeros(1, "i4,i4"),
    "longdouble": lambda: numpy.longdouble(1),
    "ChainMap": ChainMap,
    "UserDict": UserDict,
    "SimpleNamespace": SimpleNamespace,
    "iterator": lambda: iter([]),
    "class": lambda: Counter,
    "function": lambda: len,
}


@pytest.mark.parametrize("name", NOT_PLAIN)
@pytest.mark.parametrize("within", [lambda value: value, lambda value: [1, deque([(value,)])]])
def test_anything_else_is_not_plain_data_and_none_of_its_methods_is_called(name, within):
    with pytest.raises(NotPlainData):
        encode(within(NOT_PLAIN[name]()))


def test_no_module_that_imitates_the_standard_library_s_makes_its_types_plain(monkeypatch):
    for module, name in (("fractions", "Fraction"), ("decimal", "Decimal"), ("numpy", "generic"), ("numpy", "ndarray")):
        fake = ModuleType(module)
        kind = type(name, (Refuses,), {"__module__": module, "_numerator": property(), "_denominator": property()})
        setattr(fake, name, kind)
        monkeypatch.setitem(sys.modules, module, fake)
        with pytest.raises(NotPlainData):
            encode(kind())
