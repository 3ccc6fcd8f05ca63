"""Writes the tables of docs/configuration.md: every key of the configuration, its type, its default and its meaning.

What stands above them in the page stays as it is.
"""

import json
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from codea1_jax.config import Config

TARGET = Path(__file__).parent.parent / "docs" / "configuration.md"
LIMITS = {
    annotated_types.Ge: ("≥", "ge"),
    annotated_types.Gt: (">", "gt"),
    annotated_types.Le: ("≤", "le"),
    annotated_types.Lt: ("<", "lt"),
}


def page() -> str:
    head = TARGET.read_text().partition("\n## ")[0]
    return "\n".join([head, *_sections(Config)])


def _sections(schema: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every section in the order of the configuration; code and test are alike, so only code."""
    seen: set[type[BaseModel]] = set()
    keys = {f"{prefix}{name}": field for name, field in schema.model_fields.items() if _section_of(field) is None}
    if keys:
        title = re.sub(r"^code\.", "code, test: ", prefix).replace("templates.code", "templates").rstrip(".: ")
        yield f"## {title or 'The run as a whole'}\n\n{_one_line(schema.__doc__)}\n"
        yield "| key | values | default | |\n| --- | --- | --- | --- |"
        yield "\n".join(_row(name, field) for name, field in keys.items()) + "\n"
    for name, field in schema.model_fields.items():
        kind = _section_of(field)
        if kind is not None and kind not in seen:
            seen.add(kind)
            yield from _sections(kind, f"{prefix}{name}.")


def _section_of(field: FieldInfo) -> type[BaseModel] | None:
    kinds = (field.annotation, *typing.get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _row(name: str, field: FieldInfo) -> str:
    assert field.description, f"{name} has no description"
    limits = [f"{LIMITS[type(m)][0]} {getattr(m, LIMITS[type(m)][1])}" for m in field.metadata if type(m) in LIMITS]
    values = ", ".join([_kind(field.annotation), *limits])
    cells = (f"`{name}`", values, _default(field), _one_line(field.description))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


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


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    value = field.default
    return "none" if value is None else f"`{json.dumps(value) if not isinstance(value, str) else value}`"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


if __name__ == "__main__":
    TARGET.write_text(page())
    print(TARGET)
