"""Settings that were chosen, each with its reason: as overrides, and as a preset's YAML."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml


class Setting(NamedTuple):
    value: Any
    reason: str


Settings = Mapping[str, Setting]
"""By the keys, with their dots."""


def as_overrides(settings: Settings) -> list[str]:
    return [f"{key}={_written(setting.value)}" for key, setting in settings.items()]


def as_yaml(settings: Settings, heading: Sequence[str]) -> str:
    """A preset: sections of keys, and behind each its reason. heading: lines above them."""
    tree: dict[str, Any] = {}
    for key, setting in settings.items():
        *parents, leaf = key.split(".")
        section = tree
        for parent in parents:
            section = section.setdefault(parent, {})
        section[leaf] = setting
    return "\n".join([*(f"# {line}" for line in heading), *_lines(tree, "")]) + "\n"


def _lines(tree: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, entry in tree.items():
        if isinstance(entry, Setting):
            yield f"{f'{indent}{name}: {_written(entry.value)}':40}  # {entry.reason}"
        else:
            yield f"{indent}{name}:"
            yield from _lines(entry, f"{indent}  ")


def _written(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).removesuffix("\n...\n").strip()
