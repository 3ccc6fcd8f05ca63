"""Plans as SVG pictures, which need nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from codea1_jax.models.flops import Number
from codea1_jax.plan.comparison import TIMED
from codea1_jax.plan.plan import Plan
from codea1_jax.plan.planned import PHASE_COLUMNS, Planned

# Told apart by people who do not see all colors (Okabe and Ito).
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#999999")
PARTS = {
    "prefill": ("weights", "prefill"),
    "decode": ("insert", "decode"),
    "score": ("score-old", "score-ref"),
    "gradient": ("gradient", "clear", "update"),
}
# What a step does one after the other, as it is called, and by what a run times it; judging is the hosts'.
LANES = {
    "sample programs": "generate_code",
    "sample suites": "generate_tests",
    "judge": None,
    "update Code LLM": "update_code",
    "update Test LLM": "update_test",
}
ROW, LABEL, BAR, TOTAL = 22, 130, 520, 80  # pixels: a bar's height, and the widths of its name, itself and its seconds


def steps_picture(plans: Mapping[str, Planned]) -> str:
    """Where the time of a step goes, by preset: bars of the same length, each with its seconds."""
    rows = []
    for number, (name, plan) in enumerate(plans.items()):
        top, left = 40 + number * ROW, float(LABEL)
        rows.append(_text(LABEL - 8, top + 13, name, "end"))
        for color, seconds in zip(COLORS, _by_part(plan), strict=False):
            width = BAR * seconds / plan.expected
            rows.append(f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 6}" fill="{color}"/>')
            left += width
        rows.append(_text(LABEL + BAR + 8, top + 13, f"{plan.expected:,.0f} s"))
    return _svg(LABEL + BAR + TOTAL, 50 + len(plans) * ROW, [*_legend((*PARTS, "judging"), LABEL), *rows])


def _by_part(plan: Planned) -> list[float]:
    """Expected seconds of a step by PARTS, and last what is in none of its phases: judging."""
    column = PHASE_COLUMNS.index("s/step expected")
    found = [
        sum(float(cells[column]) for cells in plan.phases if cells[0].split()[0] in kinds) for kinds in PARTS.values()
    ]
    return [*found, max(0.0, plan.expected - sum(found))]


def timeline_picture(plan: Plan, title: str) -> str:
    """The expected step over time: a bar for each thing it does, which begins where the one before ends.

    Bars are split into PARTS by their share; the device mixes these. Judging is drawn as if sampling hid none of it.
    """
    rows, begun = [], 0.0
    for number, (name, timed) in enumerate(LANES.items()):
        parts = [plan.judging] if timed is None else _expected_by_part(plan, TIMED[timed])
        top, start = 64 + number * ROW, begun
        for color, seconds in zip(COLORS[len(PARTS) :] if timed is None else COLORS, parts, strict=False):
            left, width = (BAR * each / plan.expected_seconds for each in (begun, seconds))
            rows.append(
                f'<rect x="{LABEL + left:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 6}" fill="{color}"/>'
            )
            begun += seconds
        rows.append(_text(LABEL - 8, top + 13, name, "end"))
        rows.append(_text(LABEL + BAR + 8, top + 13, f"{begun - start:,.1f} s"))
    bottom = 64 + len(LANES) * ROW
    axis = [
        _text(LABEL + share * BAR, bottom + 14, f"{share * plan.expected_seconds:,.0f} s", "middle")
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    head = [_text(LABEL, 18, title), *_legend((*PARTS, "judging"), LABEL, 30)]
    return _svg(LABEL + BAR + TOTAL, bottom + 26, [*head, *rows, *axis])


def _expected_by_part(plan: Plan, phases: Sequence[str]) -> list[float]:
    """Expected seconds that a step spends on these phases, by PARTS."""
    taken = {row.phase.name: row.expected_seconds for row in plan.rows if row.phase.name in phases}
    return [
        sum((seconds for name, seconds in taken.items() if name.split()[0] in kinds), start=0.0)
        for kinds in PARTS.values()
    ]


def _legend(names: Sequence[str], left: Number, top: Number = 14) -> list[str]:
    lines = []
    for color, name in zip(COLORS, names, strict=False):
        lines += [
            f'<rect x="{left}" y="{top}" width="12" height="12" fill="{color}"/>',
            _text(left + 17, top + 10, name),
        ]
        left += 34 + 7 * len(name)
    return lines


def _text(x: Number, y: Number, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: Number, height: Number, lines: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *lines, "</svg>\n"])
