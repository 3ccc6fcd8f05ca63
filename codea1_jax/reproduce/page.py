"""Tables as one HTML page that needs nothing else: figures, and every mean drawn with its interval."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import jinja2

from codea1_jax.common.words import audit_line
from codea1_jax.reproduce.dynamics import Chart
from codea1_jax.reproduce.published import Published
from codea1_jax.reproduce.results import Mean, Result
from codea1_jax.reproduce.write import spelled

ROW, LABEL, SCALE = 26, 170, 330  # pixels: height of a row, room for its name, width of the scale


@dataclass(frozen=True)
class Dot:
    """A row's mean on the scale, and where its interval begins and ends; in pixels."""

    name: str
    text: str
    x: float
    low: float
    high: float
    y: float


@dataclass(frozen=True)
class Plot:
    """One figure of every row on a common scale. ticks: their places and values in percent."""

    title: str
    dots: tuple[Dot, ...]
    ticks: tuple[tuple[float, str], ...]

    @property
    def height(self) -> int:
        """The height of the rows, without the scale's numbers."""
        return ROW * len(self.dots)


def page(
    results: Sequence[Result], papers: Mapping[str, Published], command: str, charts: Mapping[str, Sequence[Chart]]
) -> str:
    """The page as text; `command` is what makes it. `charts` are by table; a column that has one is drawn by it alone.

    The same figures give the same text.
    """
    folder = resources.files("codea1_jax")
    style = [(folder / place).read_text("utf-8") for place in ("report/assets/base.css", "reproduce/page.css")]
    template = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined).from_string(
        (folder / "reproduce/page.html").read_text("utf-8")
    )
    return template.render(
        tables=[
            (result, plots(result, {chart.title for chart in charts.get(result.name, ())}), papers.get(result.name))
            for result in results
        ],
        charts=charts,
        style="\n".join(style),
        command=command,
        spelled=spelled,
        audit_line=audit_line,
        width=LABEL + SCALE + 20,
        left=LABEL,
    )


def plots(result: Result, charted: Collection[str] = ()) -> tuple[Plot, ...]:
    """Every column that has figures, but those that a chart draws."""
    columns = []
    for i, title in enumerate(result.columns):
        if title in charted:
            continue
        means = [(line.name, cell.mean) for line in result.lines if (cell := line.cells[i]) is not None]
        if means:
            columns.append(_plot(title, means))
    return tuple(columns)


def _plot(title: str, means: Sequence[tuple[str, Mean]]) -> Plot:
    low = min(mean.value - (mean.margin or 0.0) for _, mean in means)
    high = max(mean.value + (mean.margin or 0.0) for _, mean in means)
    room = max(high - low, 1.0) * 0.06
    start, width = low - room, high - low + 2 * room

    def x(value: float) -> float:
        return round(LABEL + SCALE * (value - start) / width, 1)

    dots = tuple(
        Dot(
            name=name,
            text=f"{mean.value:.1f}",
            x=x(mean.value),
            low=x(mean.value - (mean.margin or 0.0)),
            high=x(mean.value + (mean.margin or 0.0)),
            y=ROW * (i + 0.5),
        )
        for i, (name, mean) in enumerate(means)
    )
    ticks = tuple((x(value), f"{value:.0f}%") for value in (low, (low + high) / 2, high))
    return Plot(title, dots, ticks)
