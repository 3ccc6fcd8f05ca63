"""Hypotheses tested over seeds: p values, their adjustment, verdicts, and that what is stated can be measured."""

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.experiments import Figure, Table, TableRow, tables
from codea1_jax.reproduce.hypotheses import FAMILIES, Expected, Hypothesis, examine, holm, hypotheses, paired_p
from codea1_jax.reproduce.micro_lab import MicroLab
from codea1_jax.reproduce.published import extensions, published
from codea1_jax.reproduce.write import hypotheses_markdown

SEEDS = range(3)


def test_holms_adjustment_is_that_of_worked_examples():
    # At 5% the first and the last of these four are rejected (the example of many textbooks).
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.5]) == (0.5,)
    assert holm([0.6, 0.7]) == (1.0, 1.0)
    assert holm([0.02, 0.02]) == pytest.approx((0.04, 0.04))
    assert holm([]) == ()


def test_values_that_become_known_never_make_the_others_worse():
    grid = (0.0, 0.001, 0.02, 0.3, 1.0)
    for values in product(grid, repeat=3):
        full = holm(values)
        for i in range(3):
            hidden = holm([1.0 if j == i else p for j, p in enumerate(values)])
            assert all(hidden[j] >= full[j] for j in range(3))


def test_the_paired_t_test_has_its_known_values():
    # Student's own data (Biometrika 6, 1908): additional hours of sleep by two drugs; t = 4.0621, p = 0.002833.
    sleep = (1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4)
    assert paired_p(sleep) == pytest.approx(0.002833, abs=1e-6)
    assert paired_p([-each for each in sleep]) == pytest.approx(paired_p(sleep))
    # One degree of freedom is Cauchy's distribution, two have a closed form.
    assert paired_p((1.0, 3.0)) == pytest.approx(1 - 2 / math.pi * math.atan(2))
    t = 2 / (1 / math.sqrt(3))
    assert paired_p((1.0, 2.0, 3.0)) == pytest.approx(1 - t / math.sqrt(2 + t * t))


def test_differences_that_are_all_the_same_divide_nothing_by_zero():
    assert paired_p((0.0, 0.0, 0.0)) == 1
    assert paired_p((2.0, 2.0, 2.0)) == 0
    with pytest.raises(ValueError, match="two seeds"):
        paired_p((1.0,))


def table(folder: Path, name: str, **rows: tuple[float | None, ...]) -> Table:
    """A table of one column, `good`, whose rows have these figures by seed; None: the run lacks it."""

    def row(title: str, values: tuple[float | None, ...]) -> TableRow:
        commands = []
        for seed, value in enumerate(values):
            directory = folder / name / f"{title}-seed{seed}"
            directory.mkdir(parents=True)
            (directory / "summary.json").write_text("{}")
            line = {"kind": "eval", "step": 1} | ({} if value is None else {"eval/good": value})
            (directory / "metrics.jsonl").write_text(json.dumps(line) + "\n")
            commands.append(Command(directory, ("codea1", "train"), "summary.json", "training"))
        return TableRow(title, lambda seed: ((Figure(commands[seed], "good"),),), lambda seed: commands[seed])

    return Table(name, name, ("good",), tuple(row(title, values) for title, values in rows.items()))


@pytest.mark.parametrize(
    ("gains", "expected", "verdict"),
    [
        ((10.0, 10.1, 9.9), "more", "supported"),
        ((10.0, 10.1, 9.9), "less", "contradicted"),
        ((-10.0, -10.1, -9.9), "less", "supported"),
        ((10.0, -10.1, 9.9), "more", "not supported"),
        ((0.0, 0.0, 0.0), "more", "not supported"),
        ((0.0, None, 0.0), "more", "not measured"),
    ],
)
def test_a_verdict_is_the_sign_where_the_adjusted_p_value_is_small(gains, expected, verdict, tmp_path):
    before = (20.0, 40.0, 60.0)  # seeds differ by far more than rows
    after = tuple(None if gain is None else start + gain for start, gain in zip(before, gains, strict=True))
    made = table(tmp_path, "t", one=before, other=after)
    stated = Hypothesis("Other is better.", "paper", "t", "other", "one", "good", expected)
    [family] = examine([stated], [made], SEEDS)
    assert family.findings[0].verdict == verdict
    assert verdict in hypotheses_markdown([family], 3)


def test_a_row_that_may_lack_a_margin_is_not_inferior_where_it_certainly_lacks_less(tmp_path):
    before = (20.0, 40.0, 60.0)
    for name, lost, verdict in (("near", 1.0, "supported"), ("far", 3.0, "contradicted"), ("at", 2.0, "not supported")):
        after = tuple(start - lost + change for start, change in zip(before, (0.1, -0.1, 0.0), strict=True))
        made = table(tmp_path, name, one=before, other=after)
        stated = Hypothesis("It costs at most 2.", "paper", name, "other", "one", "good", "more", margin=2)
        [family] = examine([stated], [made], SEEDS)
        assert family.findings[0].verdict == verdict
        assert "other − one > −2" in hypotheses_markdown([family], 3)


def test_what_is_not_measured_counts_as_if_it_showed_nothing(tmp_path):
    first = table(tmp_path, "first", one=(1.0, 2.0, 3.0), other=(11.0, 12.1, 12.9))
    second = table(tmp_path, "second", one=(1.0, 2.0, 3.0), other=(3.0, 4.3, 4.7), poor=(None, 1.0, 1.0))
    stated = [
        Hypothesis("A", "paper", "first", "other", "one", "good", "more"),
        Hypothesis("B", "paper", "second", "other", "one", "good", "more"),
        Hypothesis("C", "paper", "second", "poor", "one", "good", "more"),  # lacks a figure
        Hypothesis("D", "paper", "second", "absent", "one", "good", "more"),  # a row that this world does not have
        Hypothesis("E", "shared", "third", "other", "one", "good", "more"),
    ]
    [both] = examine(stated, [first, second], SEEDS)
    assert [finding.hypothesis.claim for finding in both.findings] == ["A", "B", "C", "D"]
    assert (both.size, both.measured) == (4, 2)
    small, large = both.findings[0].p, both.findings[1].p
    assert small is not None and large is not None and small < large
    assert [each.adjusted for each in both.findings] == pytest.approx([4 * small, 3 * large, 1, 1])
    [alone] = examine(stated, [second], SEEDS)
    assert [finding.hypothesis.claim for finding in alone.findings] == ["B", "C", "D"]
    assert alone.findings[0].adjusted == pytest.approx(4 * large)  # not milder, though fewer are asked for
    assert "for the 4 comparisons of this family, of which 3 are not measured" in hypotheses_markdown([alone], 3)


def test_every_hypothesis_is_of_a_table_a_row_and_a_column_that_exist(tmp_path):
    lab = MicroLab(tmp_path)
    known = tables(lab, lab.shown(published() | extensions()))
    stated = hypotheses()
    for each in stated:
        rows = {row.name for row in known[each.table].rows}
        assert {each.row, each.against} <= rows and each.row != each.against, each
        assert each.measure in known[each.table].columns, each
        assert each.family in FAMILIES and each.expected in get_args(Expected), each
    assert len({replace(each, claim="", expected="more") for each in stated}) == len(stated)
    assert len({each.claim for each in stated}) == len(stated)
