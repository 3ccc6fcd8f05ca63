"""Tables as Markdown and CSV, the paper's figures next to ours; and findings about hypotheses."""

import csv
import io
from collections.abc import Sequence

from codea1_jax.reproduce.hypotheses import Family
from codea1_jax.reproduce.published import Published
from codea1_jax.reproduce.results import Cell, Mean, Result


def markdown(result: Result, rules: str = "") -> str:
    """Means with their 95% intervals; in parentheses the gain, in bold where it is certain; then the paper's figure.

    rules: by which it was measured, in a line.
    """
    head = ["", *result.columns]
    rows = [[line.name, *map(_text_of, line.cells)] for line in result.lines]
    legend = f"\nOurs (its difference to {result.against}); the paper's [ours minus the paper's].\n"
    compared = any(cell is not None and cell.paper is not None for line in result.lines for cell in line.cells)
    parts = (f"### {result.title}\n\n", _pipes(head, rows), legend if compared else "", f"\n{rules}\n" if rules else "")
    return "".join(parts)


def published_markdown(table: Published) -> str:
    rows = [
        [f"{name}, {model}", *(f"{value:.2f}" for value in values)]
        for model, figures in table.models.items()
        for name, values in figures.items()
    ]
    return "The paper's, with Qwen2.5-Coder:\n\n" + _pipes(["", *table.columns], rows)


def comma_separated(result: Result) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "row", "figure", "mean", "margin", "gain", "gain_margin", "paper", "difference", "seeds"])
    for line in result.lines:
        for column, cell in zip(result.columns, line.cells, strict=True):
            if cell is not None:
                gain = [cell.gain.value, cell.gain.margin] if cell.gain else [None, None]
                numbers = [cell.mean.value, cell.mean.margin, *gain, cell.paper, cell.surplus]
                printed = ["" if number is None else f"{number:.4f}" for number in numbers]
                writer.writerow([result.name, line.name, column, *printed, len(result.seeds)])
    return out.getvalue()


def hypotheses_markdown(families: Sequence[Family], seeds: int) -> str:
    head = ["claim", "measured", "difference", "p", "adjusted p", "verdict"]
    sections = []
    for family in families:
        rows = []
        for finding in family.findings:
            stated = finding.hypothesis
            difference = "–" if finding.difference is None else _spelled(finding.difference, sign=True)
            verdict = f"**{finding.verdict}**" if finding.certain else finding.verdict
            above = f" > −{stated.margin:g}" if stated.margin else ""
            measured = f"{stated.measure}: {stated.row} − {stated.against}{above} (`{stated.table}`)"
            p, adjusted = _spelled_p(finding.p), _spelled_p(finding.adjusted)
            rows.append([stated.claim, measured, difference, p, adjusted, verdict])
        sections.append(f"### {family.title}\n\n{_pipes(head, rows)}\n{_tested_how(family, seeds)}\n")
    return "\n".join(sections)


def _tested_how(family: Family, seeds: int) -> str:
    missing = family.size - family.measured
    return (
        f"Two-sided paired t tests over {seeds} seeds; intervals are 95%, of each difference alone. p is adjusted by "
        f"Holm's method for the {family.size} comparisons of this family"
        + (f", of which {missing} are not measured here and count with p = 1." if missing else ".")
    )


def _spelled_p(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _pipes(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ruler, *rows]) + "\n"


def _text_of(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    text = _spelled(cell.mean)
    if cell.gain is not None:
        gain = _spelled(cell.gain, sign=True)
        text += f" (**{gain}**)" if cell.certain else f" ({gain})"
    return text if cell.paper is None else f"{text}; {cell.paper:.2f} [{cell.surplus:+.1f}]"


def _spelled(mean: Mean, *, sign: bool = False) -> str:
    value = f"{mean.value:+.1f}" if sign else f"{mean.value:.1f}"
    return value if mean.margin is None else f"{value} ± {mean.margin:.1f}"
