"""Inside the jail: what distinguishes the inputs of one call of a function from those of another.

Two calls have the same inputs if every parameter gets an equal value, however the call is spelled: by position, by name
or by default. Lists, tuples, ranges, sets and bytes of the same items count as one input, else each test could be
written in several kinds of brackets.

Nor does it matter what the function does not look at. An argument is replaced by a plainer one (a dict by its keys, a
list of characters by a text) where the function does the same with it: it returns the same, and on its way there takes
the same steps. So `"ab"`, `["a", "b"]` and `{"a": 1, "b": 2}` are one input of a function that only goes through them,
and three of any other.
"""

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from sandbox.inside.encoding import encode
from sandbox.inside.plain import SET_VIEWS, NotPlainData

MAX_ITEMS = 2_000  # of an argument that is replaced by plainer ones
_UNORDERED = (set, frozenset, *SET_VIEWS)
_ATOMS = frozenset((type(None), bool, int, float, complex))

Arguments = tuple[tuple, dict[str, Any]]


class Inputs:
    """The inputs of one call. To be made before the call, which may change a default.

    `load` gives the call's arguments, afresh each time. Raises NotPlainData where an input is not plain data.
    """

    def __init__(self, function: Any, load: Callable[[], Arguments]) -> None:
        self.load = load
        args, kwargs = load()
        self._values = _as_identified(function, args, kwargs)
        self._plainer: list[tuple[int | str, Any, dict[str, Any]]] = []
        for parameter, value in (*enumerate(args), *kwargs.items()):
            lists = _as_lists(value)
            for plainer in _plainer(lists) if _count(lists) <= MAX_ITEMS else ():
                if plainer != lists:
                    changed = _as_identified(function, *_replaced((args, kwargs), parameter, plainer))
                    self._plainer.append((parameter, plainer, changed))
        encode(self._values)

    @property
    def has_plainer(self) -> bool:
        return bool(self._plainer)

    def identity(self, does_the_same: Callable[[Arguments], bool]) -> str:
        """A text that is equal for equal inputs, once what the function does not look at is left out."""
        values, accepted = dict(self._values), {}
        for parameter, plainer, changed in self._plainer:
            if parameter in accepted:
                continue
            arguments = self.load()
            for other, value in {**accepted, parameter: plainer}.items():
                arguments = _replaced(arguments, other, _as_lists(value))
            if does_the_same(arguments):
                accepted[parameter] = plainer
                values |= {name: value for name, value in changed.items() if value != self._values.get(name)}
        return encode(values)


class Path:
    """The steps that Python takes, of whichever functions; as `sys.settrace` wants it."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self, frame: types.FrameType, event: str, _about: object) -> "Path":
        frame.f_trace_opcodes = True
        self.taken = hash((self.taken, id(frame.f_code), frame.f_lasti, event))
        return self

    def of(self, thunk: Callable[[], object]) -> object:
        # Python 3.12 follows opcodes only if some frame asked for them before tracing began.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self)
        try:
            return thunk()
        finally:
            sys.settrace(None)


def _as_identified(function: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    return _as_lists(_by_parameter(getattr(function, "__wrapped__", function), args, kwargs))


def _replaced(arguments: Arguments, parameter: int | str, value: Any) -> Arguments:
    args, kwargs = arguments
    if isinstance(parameter, int):
        return (*args[:parameter], value, *args[parameter + 1 :]), kwargs
    return args, {**kwargs, parameter: value}


def _by_parameter(function: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Every parameter's value, given or by default; what has no parameter is under its position or name."""
    if type(function) is not types.FunctionType:
        return _bound(function, args, kwargs)
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False))
    given = dict(zip(positional, args, strict=False))
    more = {str(position): value for position, value in enumerate(args) if position >= len(positional)}
    implied = {name: _distinct(value) for name, value in {**defaults, **(function.__kwdefaults__ or {})}.items()}
    return {**implied, **given, **more, **kwargs}


def _bound(function: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    import inspect  # noqa: PLC0415  (slow to load and seldom needed in the jail)

    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):  # a builtin, or a call that will raise
        return {**{str(position): value for position, value in enumerate(args)}, **kwargs}
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
    kind = type(value)
    if kind is dict:
        return {key: _as_lists(item) for key, item in value.items()}
    if kind in _UNORDERED:
        return [_as_lists(item) for item in sorted(value, key=encode)]
    if kind in _ATOMS or kind is str or not isinstance(value, list | tuple | range | bytes | Iterator):
        return value
    return list(value) if _is_flat(value) else [_as_lists(item) for item in value]


def _is_flat(value: Any) -> bool:
    """Whether nothing lies in the items of a list, or of what is read like one."""
    return isinstance(value, range | bytes) or (not isinstance(value, Iterator) and set(map(type, value)) <= _ATOMS)


def _count(value: Any) -> int:
    if type(value) is dict:
        return len(value) + sum(map(_count, value.values()))
    if type(value) is not list or _is_flat(value):
        return 1
    return len(value) + sum(map(_count, value))


def _plainer(lists: Any) -> Iterator[Any]:
    """What may do the same as a value, the plainest first."""
    in_order = _sorted(lists)
    yield _as_text(in_order)
    yield _as_text(lists)
    yield _without_keys(in_order)


def _sorted(value: Any) -> Any:
    """Lists with the keys of dicts in order: dicts are equal whatever theirs is."""
    if type(value) is dict:
        return {key: _sorted(value[key]) for key in sorted(value, key=encode)}
    return _each(_sorted, value)


def _as_text(value: Any) -> Any:
    """Lists with dicts as the lists of their keys, then those of nothing but characters as texts."""
    items = _each(_as_text, _as_lists(list(value)) if type(value) is dict else value)
    is_text = type(items) is list and all(type(item) is str and len(item) == 1 for item in items)
    return "".join(items) if is_text else items


def _without_keys(value: Any) -> Any:
    if type(value) is dict:
        return {number: _without_keys(item) for number, item in enumerate(value.values())}
    return _each(_without_keys, value)


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    if type(value) is not list or _is_flat(value):
        return value
    return [function(item) for item in value]
