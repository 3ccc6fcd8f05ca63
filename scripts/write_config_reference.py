"""Writes docs/configuration.md: every key of the typed configuration, with its type, its default and its meaning."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from codea1_jax.config import Config

TARGET = Path(__file__).parent.parent / "docs" / "configuration.md"

HEAD = """# Configuration reference

<!-- Written by scripts/write_config_reference.py from codea1_jax/config.py; a test fails if it is out of date. -->

This page lists every key of a run. A preset is a YAML file with these keys; `key=value` after a preset's name sets one:

```bash
codea1 train micro/a1 rollout.samples=4 train.steps=20 --dry-run
```

A preset is named `MODEL/METHOD`, or `MODEL/METHOD_HARDWARE` if it is for specific hardware: `micro/a1`, `7b/golden`,
`7b/a1_v5e`. `codea1 presets` lists all of them. You can also give the path of your own YAML file. Presets for hardware
save after every step (`checkpoint.every=1`), because a stop drops the step it interrupts.

`--dry-run` prints the whole resolved configuration, and loading its output gives the same configuration. A preset's key
`compose` lists presets to start from: later ones override earlier ones, the file overrides them, and `key=value`
overrides everything. Unknown keys and values of the wrong type are errors.

`code` and `test` are the learners of the two policies and have the same keys. *Required* means that a preset must set
the key. "none" is written `null`.
"""


def page(schema: type[BaseModel] = Config) -> str:
    """The whole page, in Markdown."""
    sections = (_section(name, kind) for name, kind in _sections(schema))
    return "\n".join([HEAD, *filter(None, sections)])


def _sections(schema: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Every section by its key, in the order of the configuration; code and test are alike, so only code."""
    seen: set[type[BaseModel]] = set()
    yield prefix, schema
    for name, field in schema.model_fields.items():
        kind = _section_of(field)
        if kind is not None and kind not in seen:
            seen.add(kind)
            yield from _sections(kind, f"{prefix}{name}.")


def _section_of(field: FieldInfo) -> type[BaseModel] | None:
    kinds = (field.annotation, *typing.get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _section(prefix: str, schema: type[BaseModel]) -> str:
    fields = {name: field for name, field in schema.model_fields.items() if _section_of(field) is None}
    title = prefix.replace("code.", "code, test: ", 1).rstrip(".: ")
    if not fields:
        return ""
    lines = [f"## {title or 'The run as a whole'}", "", _one_line(schema.__doc__ or ""), ""]
    lines += ["| key | values | default | |", "| --- | --- | --- | --- |"]
    for name, field in fields.items():
        assert field.description, f"{prefix}{name} has no description"
        cells = (f"`{prefix}{name}`", _values(field), _default(field), _one_line(field.description))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


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
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{each.value}`" for each in annotation)
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", types.NoneType: "none"}
    return names[annotation]  # pyright: ignore[reportArgumentType]  a kind without a name is an error


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    value = field.default.value if isinstance(field.default, Enum) else field.default
    return "none" if value is None else f"`{json.dumps(value) if not isinstance(value, str) else value}`"


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    TARGET.write_text(page())
    print(TARGET)
