"""A plan as people read it: a table for the terminal; and as it is kept."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from codea1_jax.models.chips import GIB
from codea1_jax.plan.compiler import Compiled, Refused
from codea1_jax.plan.plan import Plan, Row, gib
from codea1_jax.plan.planned import PHASE_COLUMNS, Planned


def cells(row: Row) -> tuple[str, ...]:
    """One phase in words, as `PHASE_COLUMNS` has it."""
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
    for name in PHASE_COLUMNS:
        table.add_column(name, justify="left" if name in ("phase", "bound by") else "right", no_wrap=True)
    for row in plan.rows:
        table.add_row(*cells(row), style=None if row.fix is None else "red")
    return table


def conclusion(plan: Plan) -> list[str]:
    """What the table comes to, line by line."""
    hardware = plan.hardware
    lines = [] if hardware.is_tpu else [f"{hardware.name}: there is no compiler for it here; by arithmetic alone."]
    lines += [f"{row.phase.name} does not fit: {row.fix}" for row in plan.rows if row.fix is not None]
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


def planned(plan: Plan) -> Planned:
    """The plan in the figures that are kept."""
    fullest = max(plan.rows, key=lambda row: row.memory or float("inf"))
    return Planned(
        hardware=plan.hardware.name,
        compiled=plan.hardware.is_tpu,
        fits=plan.fits,
        memory=round(max(row.memory or 0 for row in plan.rows) / GIB, 2),
        available=round(plan.hardware.chip.memory / GIB, 2),
        fullest=fullest.phase.name,
        seconds=round(plan.seconds, 1),
        tokens_per_second=round(plan.tokens_per_second, 0),
        mfu=round(plan.utilization, 3),
        phases=tuple(cells(row) for row in plan.rows),
    )
