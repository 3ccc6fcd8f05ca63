"""Inside the jail: what an expression may see of values.

Their content and the order of dicts, that is, and nothing else of how they came about: neither what ``==`` ignores (the
order in which items went into a set, and which type of several that are equal holds them) nor the text of a value that
is not plain data, which reveals addresses.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, ItemsView, Iterable, Iterator
from functools import partial
from typing import Any

from sandbox.inside.encoding import encode
from sandbox.inside.plain import SET_VIEWS, VALUES_VIEW, python_value, type_name

_DICTS = (dict, Counter, OrderedDict, defaultdict)
_NUMBERS = frozenset((bool, int, float))


def in_order(value: Any, turn: int = 0) -> Any:  # noqa: PLR0911
    """Plain data as the one of its equals that stands for all: plain dicts, sets in an order that their content
    decides, and the plainest number. turn: how far dicts are rotated, to see what depends on their order.
    """
    kind = type(value)
    each = partial(in_order, turn=turn)
    if isinstance(value, Iterator):
        return map(each, value)
    if kind is list:
        return list(map(each, value))
    if kind is deque:
        return deque(map(each, value))
    if isinstance(value, tuple):  # of a namedtuple, whose class the program has named, the items alone
        return tuple(map(each, value))
    if kind in _DICTS:
        return {each(key): each(item) for key, item in turned(dict.items(value), turn)}
    if isinstance(value, VALUES_VIEW):
        return dict(enumerate(turned(map(each, value), turn))).values()
    if kind in SET_VIEWS:
        items = turned(map(each, value), turn)
        return dict(items).items() if isinstance(value, ItemsView) else dict.fromkeys(items).keys()
    if kind in (set, frozenset):
        items = _sorted(map(each, value))
        return frozenset(items) if kind is frozenset else set(items)
    equal = _EQUALS.get(type_name(value))
    return equal(value) if equal else value


def turned(items: Iterable[Any], turn: int) -> list[Any]:
    items = list(items)
    return items[turn:] + items[:turn]


def _sorted(values: Iterable[Any]) -> list[Any]:
    items = list(values)
    kinds = set(map(type, items))
    return sorted(items) if kinds <= _NUMBERS or kinds == {str} else sorted(items, key=encode)


def _number(value: Any) -> Any:
    """A Decimal, or a Fraction, as the float or integer that equals it, if there is one."""
    try:
        number = float(value)
    except OverflowError:  # of a Fraction
        return value
    if value != number:
        return value
    return int(number) if number.is_integer() else number


_EQUALS: dict[str, Callable[[Any], Any]] = {
    "Decimal": _number,
    "Fraction": _number,
    "complex": lambda value: value if value.imag else value.real,
    "scalar": python_value,
    "bytearray": bytes,
}


class _PlainText(type):
    """The type of a `str` that reveals nothing of what is not plain data; in all else it is `str`."""

    def __call__(cls, *args: Any, **kwargs: Any) -> str:
        return str(*map(_plain, args), **kwargs)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, str)

    def __getattr__(cls, name: str) -> Any:
        return getattr(str, name)


class _Str(metaclass=_PlainText):
    """Stands for `str` in expressions."""


def _plain(value: Any) -> Any:
    encode(value)
    return value


BUILTINS = {"str": _Str, "repr": lambda value: repr(_plain(value)), "ascii": lambda value: ascii(_plain(value))}
