"""The paper's tables: which methods their rows show, their figures, and what the paper leaves open."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True)
class Published:
    """A table of the paper.

    rows: their methods, or the Code LLM's and the Test LLM's. models: every row's figures in percent, by model, in the
    order of `columns`.
    """

    title: str
    rows: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...]
    models: Mapping[str, Mapping[str, Sequence[float]]]

    def figure(self, model: str, row: str, column: str) -> float | None:
        """A figure in percent; None if the paper has none there."""
        figures = self.models.get(model, {}).get(row)
        return None if figures is None or column not in self.columns else figures[self.columns.index(column)]

    def without(self, columns: Collection[str]) -> Published:
        """The table without these columns; without figures, if none is left."""
        kept = [i for i, column in enumerate(self.columns) if column not in columns]
        models = {
            model: {row: [values[i] for i in kept] for row, values in lines.items()}
            for model, lines in (self.models if kept else {}).items()
        }
        return replace(self, columns=tuple(self.columns[i] for i in kept), models=models)


def published() -> dict[str, Published]:
    return {name: _table(tree) for name, tree in _read("published.yaml").items()}


def extensions() -> dict[str, Published]:
    """Tables that the paper does not have, which therefore have no figures of it, by name."""
    return {name: _table(tree) for name, tree in _read("extensions.yaml").items()}


def _table(tree: Mapping[str, Any]) -> Published:
    rows = {row: (methods,) if isinstance(methods, str) else tuple(methods) for row, methods in tree["rows"].items()}
    figures = {
        model: {row: tuple(map(float, values)) for row, values in lines.items()}
        for model, lines in tree.get("figures", {}).items()
    }
    return Published(tree["title"], rows, tuple(tree.get("columns", ())), figures)


@dataclass(frozen=True)
class Choice:
    """What the paper and its code leave open, and what is chosen here. name: a word for it."""

    name: str
    open: str
    here: str


@dataclass(frozen=True)
class Choices:
    """What presets fill in. methods: what each depends on; together: what putting two models together does."""

    methods: Mapping[str, tuple[Choice, ...]]
    together: tuple[Choice, ...]

    def of_row(self, methods: tuple[str, ...]) -> tuple[Choice, ...]:
        """What a row of a table depends on; nothing if the paper states it fully."""
        own = (choice for method in methods for choice in self.methods[method])
        return tuple(dict.fromkeys((*own, *(self.together if len(methods) > 1 else ()))))


def choices() -> Choices:
    tree = _read("choices.yaml")
    known = {name: Choice(name, **choice) for name, choice in tree["choices"].items()}
    methods = {method: tuple(known[name] for name in names) for method, names in tree["methods"].items()}
    return Choices(methods, tuple(known[name] for name in tree["together"]))


def _read(name: str) -> dict[str, Any]:
    return yaml.safe_load((resources.files("codea1_jax.reproduce") / name).read_text(encoding="utf-8"))
