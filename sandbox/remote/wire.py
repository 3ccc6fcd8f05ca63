"""Jobs and results from JSON, for judges on other machines."""

import dataclasses
import functools
import json
import typing
from enum import Enum
from typing import Any

_MAX_PARTS = 1 << 20  # tens of bytes of memory each, and much time of the garbage collector's


def parsed(text: str) -> Any:
    """The value of a text in JSON. Raises ValueError or RecursionError."""
    if text.count("[") + text.count("{") > _MAX_PARTS:
        raise ValueError(f"at most {_MAX_PARTS} lists and objects are read, those in texts included")
    return json.loads(text)


def read(kind: Any, value: Any, name: str = "") -> Any:
    """A value of JSON as a `kind`: a dataclass of its fields, an optional, plain ... Raises ValueError."""
    if fields := _fields(kind):
        if not isinstance(value, dict) or not _required(kind) <= value.keys() <= fields.keys():
            unknown = (
                f", not {min(value.keys() - fields.keys())}"
                if isinstance(value, dict) and value.keys() - fields
                else ""
            )
            needed = f"; {', '.join(sorted(_required(kind)))} must be there" if _required(kind) else ""
            known = f"the fields {', '.join(sorted(fields))}{unknown}{needed}"
            raise ValueError(f"a {kind.__name__} is an object with {known}")
        return kind(**{name: read(fields[name], field, name) for name, field in value.items()})
    items = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return tuple(read(items[0], item, name) for item in _plain(list, value, name))
    if items:  # an optional value
        return value if value is None else read(items[0], value, name)
    if issubclass(kind, Enum):
        return kind(value)
    return _plain(kind, value, name)


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind) if dataclasses.is_dataclass(kind) else {}


@functools.cache
def _required(kind: Any) -> set[str]:
    missing = dataclasses.MISSING
    return {f.name for f in dataclasses.fields(kind) if f.default is missing and f.default_factory is missing}


def _plain(kind: type, value: Any, name: str) -> Any:
    if type(value) is kind or (kind is float and type(value) is int):
        return value
    raise ValueError(f"{name} must be a {kind.__name__}")
