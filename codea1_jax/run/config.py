"""Typed configuration: YAML presets that compose, dotted overrides, and errors of one line.

A preset is a YAML file under `configs/`. Its optional key `compose` lists other presets to start from, in order;
later ones win, the file itself wins over them, and `key=value` overrides win over everything.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

import configs

PRESETS = Path(configs.__file__).parent


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one line naming the key."""


class Section(BaseModel):
    """A frozen part of the configuration in which unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value_for_a_number(cls, value: Any, info: Any) -> Any:
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (annotation, *get_args(annotation)):
            raise ValueError(f"{value} is a truth value (as are yes, no, on and off); quote it if it is text")
        return value


S = TypeVar("S", bound=BaseModel)


def load(schema: type[S], preset: str, overrides: Iterable[str] = ()) -> S:
    """The resolved configuration of a preset (a path, or a name under `configs/`) with `key=value` overrides.

    Raises:
        ConfigError: an unknown preset or key, a wrong type, or an impossible combination.
    """
    tree = _read(_find(preset, Path.cwd()), ())
    for override in overrides:
        _apply(tree, override)
    try:
        return schema.model_validate(tree)
    except ValidationError as error:
        raise ConfigError("; ".join(_one_line(schema, e) for e in error.errors())) from error


def dump(config: BaseModel) -> str:
    """The configuration as YAML; loading it gives the same configuration."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def preset_names() -> tuple[str, ...]:
    """Every shipped preset that can be trained: the files two levels down, without the parts they compose."""
    names = (path.relative_to(PRESETS).with_suffix("").as_posix() for path in PRESETS.glob("*/*.yaml"))
    return tuple(sorted(name for name in names if not name.startswith("parts/")))


def _find(preset: str, relative_to: Path) -> Path:
    for path in (relative_to / preset, PRESETS / f"{preset}.yaml", PRESETS / preset):
        if path.is_file():
            return path
    near = difflib.get_close_matches(preset, preset_names(), n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; presets: {', '.join(preset_names())}"
    raise ConfigError(f"no preset {preset!r}{hint}")


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in seen:
        raise ConfigError(f"{path}: presets compose each other in a circle")
    try:
        own = yaml.safe_load(path.read_text()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(own, dict):
        raise ConfigError(f"{path}: a preset is a mapping of keys, not a {type(own).__name__}")
    parts = own.pop("compose", [])
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ConfigError(f"{path}: compose: a list of presets is wanted, not {parts!r}")
    tree: dict[str, Any] = {}
    for part in parts:
        tree = _merge(tree, _read(_find(part, path.parent), (*seen, path.resolve())))
    return _merge(tree, own)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _apply(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"{override!r} is no override; write key=value, for example train.steps=10")
    *parents, leaf = key.split(".")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{key}: {text!r} is not a YAML value") from error
    for parent in parents:
        if not isinstance(tree.get(parent), dict):
            tree[parent] = {}
        tree = tree[parent]
    tree[leaf] = value


def _one_line(schema: type[BaseModel], error: Any) -> str:
    key = ".".join(map(str, error["loc"]))
    if error["type"] != "extra_forbidden":
        message = " ".join(error["msg"].removeprefix("Value error, ").split())
        return f"{key}: {message}" if key else message
    near = difflib.get_close_matches(key, _keys(schema), n=1)
    return f"unknown key {key}" + (f"; did you mean {near[0]}?" if near else "")


def _keys(schema: type[BaseModel], prefix: str = "") -> list[str]:
    keys = []
    for name, field in schema.model_fields.items():
        keys.append(prefix + name)
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                keys += _keys(kind, f"{prefix}{name}.")
    return keys
