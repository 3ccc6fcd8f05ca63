"""Hypotheses about rows of tables, tested by what finished runs measured.

Each is tested by a two-sided paired t test over seeds. Within a family p values are adjusted by Holm's method (A simple
sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979), so that the chance of any
false claim among them is at most 5%.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import yaml
from scipy.stats import ttest_1samp

from codea1_jax.reproduce.experiments import Table
from codea1_jax.reproduce.results import Mean, mean, read_column

LEVEL = 0.05
FAMILIES = {
    "paper": "What the paper claims or implies",
    "shared": "What tests find that are paid for what their siblings miss",
}

Expected = Literal["more", "less"]


@dataclass(frozen=True)
class Hypothesis:
    """A claim: in a table's column `measure`, `row` has more or less than the row `against`.

    margin: what `row` may lack and still count as having more (a test of non-inferiority).
    """

    claim: str
    family: str
    table: str
    row: str
    against: str
    measure: str
    expected: Expected
    margin: float = 0.0


@dataclass(frozen=True)
class Finding:
    """What runs show about a hypothesis. difference: row minus against; None, like p, if it was not measured."""

    hypothesis: Hypothesis
    difference: Mean | None
    p: float | None
    adjusted: float

    @property
    def certain(self) -> bool:
        return self.adjusted < LEVEL

    @property
    def verdict(self) -> str:
        if self.difference is None:
            return "not measured"
        found = "more" if self.difference.value + self.hypothesis.margin > 0 else "less"
        if not self.certain:
            return "not supported"
        return "supported" if found == self.hypothesis.expected else "contradicted"


@dataclass(frozen=True)
class Family:
    """The findings of a family whose tables were asked for; `size` counts all its hypotheses, measured or not."""

    title: str
    findings: tuple[Finding, ...]
    size: int
    measured: int


def hypotheses() -> tuple[Hypothesis, ...]:
    text = (resources.files("codea1_jax.reproduce") / "hypotheses.yaml").read_text(encoding="utf-8")
    return tuple(Hypothesis(**entry) for entry in yaml.safe_load(text))


def examine(stated: Sequence[Hypothesis], tables: Sequence[Table], seeds: Sequence[int]) -> tuple[Family, ...]:
    """Every family that has a hypothesis about one of these tables, whose runs are finished.

    The other hypotheses of a family, and those whose figures are missing, count with p = 1: asking for fewer tables
    never makes the adjustment milder. Raises ValueError for fewer than two seeds.
    """
    by_name = {table.name: table for table in tables}
    families = []
    for name, title in FAMILIES.items():
        members = [each for each in stated if each.family == name]
        differences = [read_differences(each, by_name, seeds) for each in members]
        known = [
            None if values is None else paired_p([value + stated.margin for value in values])
            for stated, values in zip(members, differences, strict=True)
        ]
        adjusted = holm([1.0 if p is None else p for p in known])
        findings = tuple(
            Finding(hypothesis, None if values is None else mean(values), p, corrected)
            for hypothesis, values, p, corrected in zip(members, differences, known, adjusted, strict=True)
            if hypothesis.table in by_name
        )
        if findings:
            families.append(Family(title, findings, len(members), sum(p is not None for p in known)))
    return tuple(families)


def read_differences(
    hypothesis: Hypothesis, tables: dict[str, Table], seeds: Sequence[int]
) -> tuple[float, ...] | None:
    """By seed, row minus against; None if table or row was left out, or a run lacks the figure."""
    table = tables.get(hypothesis.table)
    if table is None:
        return None
    rows = {row.name: row for row in table.rows}
    if not {hypothesis.row, hypothesis.against} <= rows.keys():
        return None
    column = table.columns.index(hypothesis.measure)
    differences = []
    for seed in seeds:
        ours, other = (read_column(rows[name].figures(seed)[column]) for name in (hypothesis.row, hypothesis.against))
        if ours is None or other is None:
            return None
        differences.append(ours.value - other.value)
    return tuple(differences)


def paired_p(differences: Sequence[float]) -> float:
    """The two-sided p value of Student's paired t test. Raises ValueError for fewer than two differences.

    Differences that are all the same are certain, or, where they are zero, nothing.
    """
    if len(differences) < 2:
        raise ValueError("a paired test needs two seeds")
    if len(set(differences)) == 1:
        return float(differences[0] == 0)
    test: Any = ttest_1samp(differences, 0.0)
    return float(test.pvalue)


def holm(values: Sequence[float]) -> tuple[float, ...]:
    adjusted, highest = [1.0] * len(values), 0.0
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[i]))
        adjusted[i] = highest
    return tuple(adjusted)
