"""A plan as people read it: a table for the terminal; and as it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from codea1_jax.devices.chips import GIB
from codea1_jax.plan.arithmetic.workload import is_sampling
from codea1_jax.plan.calibrate import Calibrated
from codea1_jax.plan.compiled.compiler import Compiled
from codea1_jax.plan.plan import Plan, Row, gib
from codea1_jax.plan.planned import PHASE_COLUMNS, Planned
from codea1_jax.plan.search import Candidate

WORTH_A_LINE = 0.1  # temporaries, as a share of parameters and cache


def cells(row: Row) -> tuple[str, ...]:
    """One phase in words, as `PHASE_COLUMNS` has it."""
    received = sum(row.compiled.received.values()) if isinstance(row.compiled, Compiled) else 0.0
    return (
        row.phase.name,
        gib(row.memory) if row.memory is not None else str(row.compiled),
        gib(row.temporaries),
        f"{row.calls:.0f}",
        f"{row.phase.flops / 1e12:.3g}",
        f"{received / 1e9:.3g}",
        row.bound,
        f"{row.step_seconds:.3g}",
        f"{row.expected_seconds:.3g}",
        max(row.expected, key=lambda resource: row.expected[resource], default=""),
    )


def rich_table(plan: Plan, title: str) -> Table:
    """For the terminal."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in PHASE_COLUMNS:
        table.add_column(name, justify="left" if name in ("phase", "bound by", "mostly") else "right", no_wrap=True)
    for row in plan.rows:
        table.add_row(*cells(row), style=None if row.fix is None else "red")
    return table


def conclusion(plan: Plan) -> list[str]:
    """What the table comes to, line by line."""
    hardware = plan.hardware
    lines = [f"{row.phase.name} does not fit: {row.fix}" for row in plan.rows if row.fix is not None]
    if plan.fits:
        lines.append(f"fits {hardware.name}: at most {peak(plan)} of {gib(hardware.chip.memory)} GiB per chip in use")
    lines += failures(plan)
    lines += [
        f"{row.phase.name} takes {gib(row.temporaries)} GiB for temporaries, "
        f"{row.temporaries / least:.0%} of its parameters and cache"
        for row in plan.rows
        if (least := _arguments(row)) and row.temporaries > WORTH_A_LINE * least
    ]
    lines += [
        f"{role}: {sampled.blocks} blocks with {sampled.occupancy:.0%} of the rows in use; prefill computes "
        f"{sampled.prefilled / 1e6:.3g} M tokens for {sampled.prompts / 1e6:.3g} M; {sampled.preempted} samples drawn "
        "again for want of pages"
        for role, sampled in plan.step.sampled.items()
    ]
    share = "their longest" if plan.fill == 1 else f"{plan.fill:.0%} of their longest on average"
    lines.append(
        f"a step with prompts and responses at {share}: no less than {plan.seconds:.4g} s, no more than "
        f"{plan.tokens_per_second:.4g} tokens/s, MFU no higher than {plan.utilization:.1%} (judging left out)"
    )
    if plan.fits:
        source = "estimates and assumed efficiencies, never measured on a device"
        source = "estimates, corrected by what was measured on a device" if plan.ratios else source
        lines.append(
            f"expected: {plan.expected_seconds:.4g} s, {plan.judging:.2g} s of them for judging; "
            f"by the compiler's {source}; MFU of learning {plan.learning_utilization:.1%}"
        )
        whole = plan.whole
        hours = {name: f"{seconds / 3600:.1f}" for name, seconds in asdict(whole).items() if isinstance(seconds, float)}
        lines.append(
            f"a run of {whole.num_steps} steps: {whole.seconds / 3600:.1f} h expected, of which "
            f"{whole.num_evaluations} evaluations {hours['evaluations']}, waiting for saves {hours['saving']}, "
            f"the first start {hours['start']}"
        )
        lines.append(
            f"physical limit: {plan.limit_seconds:.4g} s, if every byte that must move moved once at the published "
            f"bandwidth; the expected step takes {plan.expected_seconds / plan.limit_seconds:.2g} times that"
        )
    return lines


def calibrated_table(phases: Sequence[Calibrated], title: str) -> Table:
    """For the terminal."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    known = any(phase.ratio is not None for phase in phases)
    for name in ("phase", "calls", "s/call", "s/step", *(["measured : expected"] if known else [])):
        table.add_column(name, justify="left" if name == "phase" else "right", no_wrap=True)
    for phase in phases:
        per_call = f"{phase.seconds / phase.calls:.3g}" if phase.calls else ""
        cells = (phase.phase, f"{phase.calls:.3g}", per_call, f"{phase.seconds:.3g}")
        table.add_row(*cells, *([] if phase.ratio is None else [f"{phase.ratio:.2f}"]))
    return table


def calibrated_document(phases: Sequence[Calibrated]) -> dict[str, Any]:
    """The same for machines."""
    return {
        "expected_seconds": sum(phase.seconds for phase in phases),
        "phases": {
            phase.phase: {"calls": phase.calls, "step_seconds": phase.seconds, "measured_to_expected": phase.ratio}
            for phase in phases
        },
    }


def search_table(candidates: Sequence[Candidate], title: str) -> Table:
    """Layouts that were compiled, best first."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("layout", "GiB/chip", "s/step expected", "of it sampling", "temporaries"):
        table.add_column(name, justify="left" if name == "layout" else "right", no_wrap=name != "layout")
    for candidate in candidates:
        layout = " ".join(candidate.overrides) or "as given"
        if (plan := candidate.plan) is None:
            table.add_row(layout, "", str(candidate), "", "")
            continue
        sampling = sum(row.expected_seconds for row in plan.rows if is_sampling(row.phase.name))
        temporaries = gib(max(row.temporaries for row in plan.rows))
        table.add_row(layout, peak(plan), str(candidate), f"{sampling:.4g}", temporaries)
    return table


def _arguments(row: Row) -> int:
    """Bytes that a sampling phase is given: parameters and cache."""
    return row.compiled.arguments if is_sampling(row.phase.name) and isinstance(row.compiled, Compiled) else 0


def peak(plan: Plan) -> str:
    """GiB of the phase that needs most."""
    return gib(max(row.memory or 0 for row in plan.rows))


def planned(plan: Plan) -> Planned:
    """The plan in the figures that are kept."""
    fullest = max(plan.rows, key=lambda row: row.memory or float("inf"))
    return Planned(
        hardware=plan.hardware.name,
        fits=plan.fits,
        memory=round(max(row.memory or 0 for row in plan.rows) / GIB, 2),
        available=round(plan.hardware.chip.memory / GIB, 2),
        fullest=fullest.phase.name,
        seconds=round(plan.seconds, 1),
        expected=round(plan.expected_seconds, 1),
        limit=round(plan.limit_seconds, 1),
        learning_mfu=round(plan.learning_utilization, 3) if plan.fits else 0.0,
        tokens_per_second=round(
            sum(sampled.drawn for sampled in plan.step.sampled.values()) / plan.expected_seconds, 0
        ),
        call_seconds={
            row.phase.name: (_rounded(row.seconds[row.bound]), _rounded(plan.call_seconds.get(row.phase.name, 0.0)))
            for row in plan.rows
        },
        phases=tuple(cells(row) for row in plan.rows),
        failed=tuple(failures(plan)),
    )


def failures(plan: Plan) -> list[str]:
    """A line for each smaller program that the compiler could not make."""
    return [
        f"{name}: {outcome.reason}. Its calls count as those of a larger program; a device's autotuning may do better."
        for name, outcome in plan.failed.items()
    ]


def _rounded(seconds: float) -> float:
    """To four figures."""
    return float(f"{seconds:.4g}")
