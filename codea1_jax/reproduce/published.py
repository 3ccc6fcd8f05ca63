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
        figures = self.models.get(model, {}).get(row)
        return None if figures is None or column not in self.columns else figures[self.columns.index(column)]

    def without(self, columns: Collection[str]) -> "Published":
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


def _read(name: str) -> dict[str, Any]:
    return yaml.safe_load((resources.files("codea1_jax.reproduce") / name).read_text(encoding="utf-8"))
