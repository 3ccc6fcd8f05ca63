"""Inside the jail: what an expression may see of the values that a program returns.

Their content, that is, and nothing of how the program came to it: neither the order in which items went into a set or a
dict, which ``==`` ignores, nor the text of a value that is no plain data, which tells names and addresses. The order of
items in other objects (a Counter, an OrderedDict) is theirs to show.
"""

from collections.abc import Callable, Iterator
from typing import Any

from sandbox.encoding import NotPlainData, encode


def observed(function: Any) -> Callable[..., Any]:
    """`function`, its values in canonical order."""

    def call(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        return map(_in_order, value) if isinstance(value, Iterator) else _in_order(value)

    return call


def _in_order(value: Any) -> Any:
    """Plain data with its sets and dicts built anew, in an order that their content decides; else the value itself."""
    try:
        encode(value)
    except NotPlainData:
        return value
    return _rebuilt(value)


def _rebuilt(value: Any) -> Any:
    kind = type(value)
    if kind in (list, tuple):
        return kind([_rebuilt(item) for item in value])
    if kind in (set, frozenset):
        return kind([_rebuilt(item) for item in sorted(value, key=encode)])
    if kind is dict:
        return {_rebuilt(key): _rebuilt(value[key]) for key in sorted(value, key=encode)}
    return value


class _PlainText(type):
    """The type of a `str` that tells nothing of what is no plain data; in all else it is `str`."""

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
