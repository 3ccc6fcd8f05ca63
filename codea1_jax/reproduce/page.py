"""Tables as one HTML page that needs nothing else: figures, and every mean drawn with its interval."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2

from codea1_jax.report.page import embed_json
from codea1_jax.reproduce.hypotheses import Family
from codea1_jax.reproduce.published import Published
from codea1_jax.reproduce.results import Result
from codea1_jax.reproduce.write import spelled, spelled_p, tested_how

_STYLES = ("report/assets/base.css", "report/assets/charts.css", "reproduce/page.css")
_SCRIPTS = (
    *(f"report/assets/{name}.js" for name in ("dom", "scale", "view", "export", "chart")),
    "reproduce/tables.js",
)


def page(
    results: Sequence[Result],
    papers: Mapping[str, Published],
    command: str,
    charts: Mapping[str, Sequence[Mapping[str, Any]]],
    families: Sequence[Family] = (),
) -> str:
    """The page as text; `command` is what makes it. `charts` are by table; a column that has one is drawn by it alone.

    `families` are the hypotheses about these tables. The same figures give the same text.
    """
    folder = resources.files("codea1_jax")
    template = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined).from_string(
        (folder / "reproduce/page.html").read_text("utf-8")
    )
    drawn = {}
    for result in results:
        curves = charts.get(result.name, ())
        drawn[result.name] = {"curves": curves, "plots": plots(result, {curve["title"] for curve in curves})}
    return template.render(
        tables=[(result, papers.get(result.name)) for result in results],
        charts=charts,
        style="\n".join((folder / name).read_text("utf-8") for name in _STYLES),
        script="\n".join((folder / name).read_text("utf-8") for name in _SCRIPTS),
        data=embed_json(drawn),
        command=command,
        families=families,
        spelled=spelled,
        spelled_p=spelled_p,
        tested_how=tested_how,
    )


def plots(result: Result, charted: Collection[str] = ()) -> list[dict[str, Any]]:
    """The means of every column that has figures, but those that a chart draws, with their intervals, in percent."""
    found = []
    for i, title in enumerate(result.columns):
        means = [(line.name, cell.mean) for line in result.lines if (cell := line.cells[i]) is not None]
        if means and title not in charted:
            rows = [(name, mean.value, mean.margin or 0.0) for name, mean in means]
            found.append({"title": title, "rows": [_dot(*row) for row in rows]})
    return found


def _dot(name: str, value: float, margin: float) -> dict[str, Any]:
    return {"name": name, "value": value, "low": value - margin, "high": value + margin}
