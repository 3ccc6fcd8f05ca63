"""The paper's tables: which methods their rows show, and their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import yaml


@dataclass(frozen=True)
class Published:
    """A table of the paper: by row its method, or the Code LLM's and the Test LLM's; by model every row's figures in
    percent, in the order of `columns`."""

    title: str
    rows: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...]
    models: Mapping[str, Mapping[str, Sequence[float]]]


def published() -> dict[str, Published]:
    """The paper's tables, by name."""
    text = (resources.files("codea1_jax.reproduce") / "published.yaml").read_text(encoding="utf-8")
    return {name: _table(tree) for name, tree in yaml.safe_load(text).items()}


def _table(tree: Mapping) -> Published:
    rows = {row: (methods,) if isinstance(methods, str) else tuple(methods) for row, methods in tree["rows"].items()}
    return Published(tree["title"], rows, tuple(tree.get("columns", ())), tree.get("figures", {}))
