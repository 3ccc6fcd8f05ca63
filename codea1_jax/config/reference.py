"""Every key of the configuration in words: what a value may be, its default and its meaning."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class Key:
    """A key with its dots. A required key, which a preset must set, has no default."""

    name: str
    values: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class ConfigSection:
    """The keys of a section; `prefix` is empty or ends with a dot."""

    prefix: str
    meaning: str
    keys: tuple[Key, ...]


def sections(schema: type[BaseModel], prefix: str = "") -> Iterator[ConfigSection]:
    """Every section in the order of the configuration; code and test are alike, so only code."""
    seen: set[type[BaseModel]] = set()
    fields = {name: field for name, field in schema.model_fields.items() if _section_of(field) is None}
    keys = tuple(_key(f"{prefix}{name}", field) for name, field in fields.items())
    yield ConfigSection(prefix, _one_line(schema.__doc__ or ""), keys)
    for name, field in schema.model_fields.items():
        kind = _section_of(field)
        if kind is not None and kind not in seen:
            seen.add(kind)
            yield from sections(kind, f"{prefix}{name}.")


def _section_of(field: FieldInfo) -> type[BaseModel] | None:
    kinds = (field.annotation, *typing.get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _key(name: str, field: FieldInfo) -> Key:
    assert field.description, f"{name} has no description"
    return Key(name, _values(field), _default(field), _one_line(field.description))


def _values(field: FieldInfo) -> str:
    """What a value may be, in words."""
    words = _kind(field.annotation)
    signs = {
        annotated_types.Ge: ("≥", "ge"),
        annotated_types.Gt: (">", "gt"),
        annotated_types.Le: ("≤", "le"),
        annotated_types.Lt: ("<", "lt"),
    }
    limits = [f"{signs[type(m)][0]} {getattr(m, signs[type(m)][1])}" for m in field.metadata if type(m) in signs]
    return ", ".join([words, *limits])


def _kind(annotation: object) -> str:
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return ", ".join(f"`{each}`" for each in arguments)
    if origin is typing.Annotated:
        return _kind(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(each) for each in arguments)
    if origin is tuple:
        return f"list of {_kind(arguments[0])}"
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", types.NoneType: "none"}
    return names[annotation]  # pyright: ignore[reportArgumentType]  a kind without a name is an error


def _default(field: FieldInfo) -> str | None:
    if field.is_required():
        return None
    value = field.default
    return "none" if value is None else f"`{json.dumps(value) if not isinstance(value, str) else value}`"


def _one_line(text: str) -> str:
    return " ".join(text.split())
