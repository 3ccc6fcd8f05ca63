from collections.abc import Mapping
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.table import Table

from codea1_jax.common.chips import GIB
from codea1_jax.plan.plan import Plan
from codea1_jax.plan.planned import Planned, Plans

COLUMNS = (
    *("preset", "hardware", "fits", "GiB/chip", "of", "fullest phase"),
    *("s/step ≥", "s/step expected", "tokens/s", "MFU of learning"),
)


def plan_table(plan: Plan, title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("phase", "GiB/chip", "calls", "s/step ≥", "s/step expected"):
        table.add_column(name, justify="left" if name == "phase" else "right", no_wrap=True)
    for row in plan.rows:
        memory = str(row.compiled) if row.memory is None else _gib(row.memory)
        seconds = f"{row.step_seconds:.3g}", f"{row.expected_seconds:.3g}"
        style = None if row.fix is None else "red"
        table.add_row(str(row.phase), memory, f"{row.calls:.0f}", *seconds, style=style)
    return table


def conclusion(plan: Plan) -> list[str]:
    lines = [f"{row.phase} does not fit: {row.fix}" for row in plan.rows if row.fix is not None]
    share = "their longest" if plan.fill == 1 else f"{plan.fill:.0%} of their longest on average"
    least = f"a step with prompts and responses at {share}: at least {plan.floor:.4g} s (without judging)"
    if not plan.fits:
        return [*lines, least]
    whole = plan.whole
    hours = {name: f"{seconds / 3600:.1f}" for name, seconds in asdict(whole).items() if isinstance(seconds, float)}
    return [
        f"fits {plan.hardware.name}: at most {_gib(_peak(plan))} of {_gib(plan.hardware.chip.memory)} GiB per chip "
        "in use",
        least,
        f"expected: {plan.expected_seconds:.4g} s, {plan.judging:.2g} s of them for judging; by the compiler's "
        "estimates and assumed efficiencies, never measured on a device; "
        f"MFU of learning {plan.learning_utilization:.1%}",
        f"a run of {whole.num_steps} steps: {whole.seconds / 3600:.1f} h expected, of which "
        f"{whole.num_evaluations} evaluations {hours['evaluations']}, waiting for saves {hours['saving']}, "
        f"the first start {hours['start']}",
    ]


def summary(preset: str, plans: Plans) -> list[str]:
    """A shipped plan in words."""
    plan, (least, expected) = plans.plans[preset], plans.hours[preset]
    fits = "fits" if plan.fits else "does not fit"
    drawn = f"{plan.tokens_per_second:,.0f} tokens/s sampled, MFU of learning {plan.learning_mfu:.1%}"
    memory = f"{plan.memory:.2f} of {plan.available:.2f} GiB per chip in use"
    return [
        f"{preset} {fits} {plan.hardware}: at most {memory}, by {plan.fullest}",
        f"a step: {plan.expected:.4g} s expected, at least {plan.seconds:.4g} s; {drawn}",
        f"a run: {expected:.1f} h expected, at least {least:.1f} h for its steps",
        f"shipped, by {plans.compilers}, never measured on a device; --compile recompiles it, phase by phase",
    ]


def _peak(plan: Plan) -> int:
    return max(row.memory or 0 for row in plan.rows)


def _gib(size: int | float) -> str:
    return f"{size / GIB:.2f}"


def planned(plan: Plan) -> Planned:
    fullest = max(plan.rows, key=lambda row: row.memory or float("inf"))
    return Planned(
        hardware=plan.hardware.name,
        fits=plan.fits,
        memory=round(_peak(plan) / GIB, 2),
        available=round(plan.hardware.chip.memory / GIB, 2),
        fullest=str(fullest.phase),
        seconds=round(plan.floor, 1),
        expected=round(plan.expected_seconds, 1),
        learning_mfu=round(plan.learning_utilization, 3) if plan.fits else 0.0,
        tokens_per_second=round(plan.tokens_per_second, 0),
    )


def markdown(plans: Mapping[str, Planned]) -> str:
    rows = [
        (
            *(name, plan.hardware, "yes" if plan.fits else "no"),
            *(f"{plan.memory:.2f}", f"{plan.available:.2f}", plan.fullest),
            *(f"{plan.seconds:.4g}", f"{plan.expected:.4g}", f"{plan.tokens_per_second:.0f}"),
            f"{plan.learning_mfu:.1%}",
        )
        for name, plan in plans.items()
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in (COLUMNS, ["---"] * len(COLUMNS), *rows))
