"""Which values are plain data, decided by what a program cannot fake and without running any of its code.

A type counts by identity (the builtin ones and those of `collections`), by the name of a type written in C, which
nobody can change (Decimal, datetime, numpy), or, for the two kinds that are made in Python, by a structure whose
content can be read without its methods (Fraction, namedtuple). Whatever passes is read by C code alone, so that a type
which imitates one of these can show no more than the values it holds.

The host uses this file as well. It imports nothing that costs memory in the jail.
"""

import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

MAX_DEPTH = 100


class NotPlainData(ValueError):
    """The value, or a part of it, is not plain data, or is nested over `MAX_DEPTH`."""


SET_VIEWS, VALUES_VIEW = (type({}.keys()), type({}.items())), type({}.values())  # of a dict
# fmt: off
_BY_IDENTITY: tuple[type, ...] = (
    type(None), bool, int, float, complex, str, bytes, bytearray, range, list, tuple, set, frozenset, dict,
    *SET_VIEWS, VALUES_VIEW, Counter, OrderedDict, defaultdict, deque,
)
# fmt: on
_BY_NAME = {
    "decimal.Decimal": "Decimal",
    "datetime.date": "date",
    "datetime.time": "time",
    "datetime.datetime": "datetime",
    "datetime.timedelta": "timedelta",
    "datetime.timezone": "timezone",
    "numpy.ndarray": "ndarray",
}
_names: dict[type, str] = {kind: kind.__name__ for kind in _BY_IDENTITY}

_HEAP, _IMMUTABLE = 1 << 9, 1 << 8  # flags of a type: made at run time; for good (which no statement of Python sets)
_flags_of = type.__dict__["__flags__"].__get__  # whatever the type's own attributes claim
_names_in = type.__dict__["__dict__"].__get__
class_name: Callable[[type], str] = type.__dict__["__name__"].__get__

_Field = type(namedtuple("_", "field").field)  # type: ignore[attr-defined]
_NAMEDTUPLE_HAS = frozenset(("__new__", "__repr__", "__getnewargs__", "__doc__"))  # of what a tuple has


def type_name(value: object) -> str:
    """The name of a value's type: ``Counter``, ``Decimal``, ``namedtuple``, ``ndarray``, ...; ``scalar`` for numpy's.

    Raises NotPlainData where the type is none of plain data.
    """
    kind: type = type(value)
    name = _names.get(kind) or _name_in_c(kind)
    if name is not None:
        return name
    if (fields := fields_of(kind)) and len(fields) == len(value):  # type: ignore[arg-type]
        return "namedtuple"
    if _fraction_slots(kind):
        return "Fraction"
    raise NotPlainData(f"a value of type {class_name(kind)}")


def fields_of(kind: type) -> tuple[str, ...]:
    """The fields of a namedtuple's class, which must leave all that a tuple does as it is; else nothing."""
    if type(kind) is not type or kind.__mro__ != (kind, tuple, object):
        return ()
    own = _names_in(kind)
    fields = own.get("_fields")
    if type(fields) is not tuple or not all(type(name) is str and type(own.get(name)) is _Field for name in fields):
        return ()
    changed = own.keys() & tuple.__dict__.keys() - _NAMEDTUPLE_HAS - set(fields)
    return () if changed else fields


def ratio_of(fraction: Any) -> tuple[int, int]:
    """Numerator and denominator of a Fraction. Raises NotPlainData where it has none."""
    slots = _fraction_slots(type(fraction))
    numerator, denominator = [slot.__get__(fraction) for slot in slots]
    if type(numerator) is int and type(denominator) is int and denominator > 0:
        return numerator, denominator
    raise NotPlainData("a Fraction that is not a ratio of integers")


def python_value(scalar: Any) -> object:
    """The Python value of a numpy scalar. Raises NotPlainData where it has none."""
    value: object = scalar.item()
    if type(value) in (bool, int, float, complex, str, bytes):
        return value
    raise NotPlainData(f"a value of type {class_name(type(scalar))}")


def offset_of(zone: Any) -> Any:
    """A zone's timedelta from UTC; None without a zone. Raises NotPlainData where the program would compute it."""
    if zone is None:
        return None
    if type_name(zone) != "timezone":
        raise NotPlainData(f"a time in a zone of type {class_name(type(zone))}")
    offset = zone.utcoffset(None)
    if type_name(offset) != "timedelta":
        raise NotPlainData(f"an offset of type {class_name(type(offset))}")
    return offset


def _name_in_c(kind: type) -> str | None:
    """The name of a plain type that is written in C, found by the name it was compiled with."""
    if type(kind) is not type or _is_python(kind):
        return None
    name = _BY_NAME.get(f"{kind.__module__}.{kind.__qualname__}")
    if name is None and any(f"{base.__module__}.{base.__qualname__}" == "numpy.generic" for base in kind.__mro__):
        name = "scalar"
    if name is not None:
        _names[kind] = name
    return name


def _is_python(kind: type) -> bool:
    flags = _flags_of(kind)
    return bool(flags & _HEAP) and not flags & _IMMUTABLE


def _fraction_slots(kind: type) -> tuple[Any, ...]:
    """Where a Fraction keeps its numerator and denominator; nothing for any other type."""
    module = sys.modules.get("fractions")
    if type(module) is not types.ModuleType or vars(module).get("Fraction") is not kind:
        return ()
    own: Mapping[str, Any] = _names_in(kind)
    slots = own.get("_numerator"), own.get("_denominator")
    return slots if all(type(slot) is types.MemberDescriptorType for slot in slots) else ()
