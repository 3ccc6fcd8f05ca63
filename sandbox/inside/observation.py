"""Inside the jail: what an expression may see of values.

Their content, that is, and nothing of how they came about: neither the order in which items went into a set or a dict,
which ``==`` ignores, nor the text of a value that is not plain data, which reveals addresses.
"""

from collections.abc import Callable, Iterator
from typing import Any

from sandbox.inside.encoding import encode


def in_order(value: Any) -> Any:
    """Plain data with its sets and dicts rebuilt, in an order that their content decides."""
    kind = type(value)
    if isinstance(value, Iterator):
        return map(in_order, value)
    if kind is list:
        return [in_order(item) for item in value]
    if isinstance(value, tuple):  # of a namedtuple, whose class the program has named, the items alone
        return tuple([in_order(item) for item in value])
    if kind in (set, frozenset):
        return kind([in_order(item) for item in sorted(value, key=encode)])
    if kind is dict:
        return {in_order(key): in_order(value[key]) for key in sorted(value, key=encode)}
    return value


def without_iterators(value: Any) -> Any:
    """A value with lists in the place of iterators: how often a function reads its input must not matter."""
    kind = type(value)
    if isinstance(value, Iterator):
        return [without_iterators(item) for item in value]
    if kind in (list, tuple):
        return kind([without_iterators(item) for item in value])
    if kind is dict:
        return {key: without_iterators(item) for key, item in value.items()}
    return value


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
    """`value`. Raises NotPlainData."""
    encode(value)
    return value


def _showing(show: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: show(_plain(value))


BUILTINS = {"str": _Str, "repr": _showing(repr), "ascii": _showing(ascii)}
