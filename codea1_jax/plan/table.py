"""A plan as people read it: a table for the terminal, and one for a document."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from codea1_jax.plan.compiler import Compiled, Refused
from codea1_jax.plan.plan import Plan, Row, gib

COLUMNS = ("phase", "GiB/chip", "calls", "TFLOP", "GB recv.", "s/call", "bound by", "s/step")


def cells(row: Row) -> tuple[str, ...]:
    """One phase in words, as `COLUMNS` has it."""
    received = "?"
    if isinstance(row.compiled, Compiled):
        received = f"{sum(row.compiled.received.values()) / 1e9:.3g}"
    needed = row.compiled.reason if isinstance(row.compiled, Refused) else gib(row.memory or 0)
    return (
        row.phase.name,
        needed if row.compiled is not None else f"≥ {needed}",
        f"{row.phase.calls:.0f}",
        f"{row.phase.flops / 1e12:.3g}",
        received,
        f"{row.seconds[row.bound]:.2g}",
        row.bound,
        f"{row.step_seconds:.3g}",
    )


def rich_table(plan: Plan, title: str) -> Table:
    """For the terminal."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("phase", "bound by") else "right", no_wrap=True)
    for row in plan.rows:
        table.add_row(*cells(row), style=None if row.remedy is None else "red")
    return table


def conclusion(plan: Plan) -> list[str]:
    """What the table comes to, line by line."""
    hardware = plan.hardware
    lines = [] if hardware.is_tpu else [f"{hardware.name}: there is no compiler for it here; by arithmetic alone."]
    lines += [f"{row.phase.name} does not fit: {row.remedy}" for row in plan.rows if row.remedy is not None]
    if plan.fits:
        needs = "fits" if hardware.is_tpu else "could fit"
        most = "at most" if hardware.is_tpu else "at least"
        lines.append(f"{needs} {hardware.name}: {most} {peak(plan)} of {gib(hardware.chip.memory)} GiB per chip in use")
    share = "their longest" if plan.fill == 1 else f"{plan.fill:.0%} of their longest on average"
    lines.append(
        f"a step with prompts and responses at {share}: no less than {plan.seconds:.4g} s, no more than "
        f"{plan.tokens_per_second:.4g} tokens/s, MFU no higher than {plan.utilization:.1%} (judging left out)"
    )
    return lines


def peak(plan: Plan) -> str:
    """GiB of the phase that needs most."""
    return gib(max(row.memory or 0 for row in plan.rows))


def markdown(plans: Sequence[tuple[str, Plan]]) -> str:
    """Named plans, a line each."""
    head = ("preset", "hardware", "fits", "GiB/chip", "of", "fullest phase", "step s ≥", "tokens/s ≤", "MFU ≤")
    rows = []
    for name, plan in plans:
        fullest = max(plan.rows, key=lambda row: row.memory or float("inf"))
        figures = (f"{plan.seconds:.4g}", f"{plan.tokens_per_second:.4g}", f"{plan.utilization:.1%}")
        most = peak(plan) if plan.hardware.is_tpu else f"≥ {peak(plan)}"
        fits = "yes" if plan.fits else "no"
        available = gib(plan.hardware.chip.memory)
        rows.append((name, plan.hardware.name, fits, most, available, fullest.phase.name, *figures))
    return _document_table(head, rows)


def markdown_phases(plan: Plan) -> str:
    """The phases of a plan, a line each."""
    return _document_table(COLUMNS, [cells(row) for row in plan.rows])


def _document_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
