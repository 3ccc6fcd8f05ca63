"""Inside the jail: what distinguishes the inputs of one call of a function from those of another.

Two calls have the same inputs if every parameter gets an equal value, however the call is spelled: by position, by name
or by default. Lists, tuples, ranges, sets and bytes of the same items count as one input, else each test could be
written in several kinds of brackets.
"""

import types
from collections.abc import Iterator
from typing import Any

from sandbox.inside.encoding import encode
from sandbox.inside.plain import NotPlainData


def identity(function: Any, args: tuple, kwargs: dict[str, Any]) -> str:
    """A text that is equal for equal inputs. Raises NotPlainData where an input is not plain data."""
    values = _by_parameter(getattr(function, "__wrapped__", function), args, kwargs)
    return encode(_as_lists(values))


def _by_parameter(function: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Every parameter's value, its default where it is given none; what has no parameter stands under its place or
    name.
    """
    if type(function) is not types.FunctionType:
        return _bound(function, args, kwargs)
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False))
    given = dict(zip(positional, args, strict=False))
    more = {str(place): value for place, value in enumerate(args) if place >= len(positional)}
    implied = {name: _distinct(value) for name, value in {**defaults, **(function.__kwdefaults__ or {})}.items()}
    return {**implied, **given, **more, **kwargs}


def _bound(function: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The same for what is not a plain function: a method, a partial, a class."""
    import inspect  # noqa: PLC0415  (slow to load and seldom needed in the jail)

    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):  # a builtin, or a call that will raise
        return {**{str(place): value for place, value in enumerate(args)}, **kwargs}
    bound.apply_defaults()
    return dict(bound.arguments)


def _distinct(default: Any) -> Any:
    """A default; where it is not plain data, something that no call can give."""
    try:
        encode(_as_lists(default))
    except NotPlainData:
        return {"default": "of a kind of its own"}
    return default


def _as_lists(value: Any) -> Any:
    if isinstance(value, list | tuple | range | bytes | Iterator):
        return [_as_lists(item) for item in value]
    if isinstance(value, set | frozenset):
        return [_as_lists(item) for item in sorted(value, key=encode)]
    if type(value) is dict:
        return {key: _as_lists(item) for key, item in value.items()}
    return value
