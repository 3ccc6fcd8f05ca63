"""Inside the jail: what a program's function must not do to a check that runs in its process."""

import functools
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

# Raised in a check's map or all, these would end it early and in silence.
ENDS_OF_LOOPS = (StopIteration, StopAsyncIteration)


def guarded(module: types.ModuleType, entry_point: str) -> Any:
    """The program's function, whose values must not decide by themselves what they are equal to."""
    function = getattr(module, entry_point, None)  # a check of classes alone may do without it
    if not isinstance(function, types.FunctionType):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            value = function(*args, **kwargs)
        except ENDS_OF_LOOPS as error:
            raise RuntimeError(f"the program raised {type(error).__name__}") from error
        for part in _parts(value):
            _refuse_own_equality(part)
        return value

    return call


def is_honest(value: Any) -> bool:
    try:
        for part in _parts(value):
            _refuse_own_equality(part)
    except AssertionError:
        return False
    return True


def _parts(value: Any) -> Iterator[Any]:
    arrays = getattr(sys.modules.get("numpy"), "ndarray", ())
    seen: dict[int, Any] = {}
    todo = [value]
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        yield part
        if isinstance(part, dict):
            todo += [*dict.keys(part), *dict.values(part)]
        elif isinstance(part, list | tuple | set | frozenset | deque):
            todo += part
        elif isinstance(part, arrays) and part.dtype.hasobject:
            todo += part.flat


def _refuse_own_equality(value: Any) -> None:
    """Raise AssertionError where the program, or a value equal to anything, decides what equals it."""
    equality = type(value).__eq__
    if isinstance(equality, types.WrapperDescriptorType):  # written in C
        return
    names = getattr(equality, "__globals__", {})
    home = sys.modules.get(names.get("__name__", ""))
    if home is None or vars(home) is not names or home.__name__ == "solution":
        raise AssertionError(f"a value of type {type(value).__name__}, whose equality the program defined")
    try:
        equals_anything = bool(value == object())
    except Exception:  # noqa: BLE001  (arrays and tables raise what their libraries like, and so equal nothing else)
        return
    if equals_anything:
        raise AssertionError(f"a value of type {type(value).__name__}, which equals anything")
