"""Figures over seeds: means, Student's intervals, paired differences; and the tables made of them."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tiny_run import ROOT

from codea1_jax.config import Config, load
from codea1_jax.reproduce.commands import Command, in_order
from codea1_jax.reproduce.experiments import Figure, Table, TableRow, tables
from codea1_jax.reproduce.micro_lab import COLUMNS, MicroLab
from codea1_jax.reproduce.paper_lab import TESTS
from codea1_jax.reproduce.published import Published, extensions, published
from codea1_jax.reproduce.results import Result, mean, read_table
from codea1_jax.reproduce.write import comma_separated, markdown
from codea1_jax.run.summary import FIGURES
from configs import MICROS
from data_pipeline import micro


@pytest.mark.parametrize("count", [2, 3, 5, 40])
def test_the_interval_over_seeds_is_students(count):
    values = np.random.default_rng(count).normal(50, 3, count).tolist()
    ours = mean(values)
    low, high = stats.t.interval(0.95, count - 1, loc=np.mean(values), scale=stats.sem(values))
    assert ours.value == pytest.approx(np.mean(values))
    assert ours.margin == pytest.approx((high - low) / 2, rel=1e-9)


def test_one_seed_has_no_interval_and_none_no_mean():
    assert mean([3.0]).margin is None
    with pytest.raises(ValueError, match="at least one data point"):
        mean([])


def run(folder: Path, name: str, seed: int, **figures: float) -> Command:
    directory = folder / f"{name}-seed{seed}"
    directory.mkdir(parents=True, exist_ok=True)
    early = {"kind": "eval", "step": 0, **dict.fromkeys(figures, 0.0)}
    last = {"kind": "eval", "step": 9, **{f"eval/{key}": value for key, value in figures.items()}}
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (early, last)))
    (directory / "summary.json").write_text("{}")
    return Command(directory, ("codea1", "train"), "summary.json", "training")


PAPER = Published("A title", {}, ("other", "good"), {"1.5b": {"best_<one>": (1.0, 30.0)}})


@pytest.fixture
def result(tmp_path: Path) -> Result:
    """Over 3 seeds; the method gains 10, 11 and 12 in `good` while seeds differ by far more, and lacks `other`."""
    base = {seed: run(tmp_path, "base", seed, good=20.0 * seed, other=5.0) for seed in range(3)}
    best = {seed: run(tmp_path, "best", seed, good=20.0 * seed + 10 + seed) for seed in range(3)}

    def row(name: str, runs: dict[int, Command]) -> TableRow:
        return TableRow(
            name, lambda seed: ((Figure(runs[seed], "good"),), (Figure(runs[seed], "other"),)), runs.__getitem__
        )

    rows = (row("base", base), row("best_<one>", best))
    return read_table(Table("t", "A title", ("good", "other"), rows), range(3), PAPER, "micro")


def test_the_papers_figures_by_another_protocol_can_be_left_out():
    alone = published()["alpha"].without(TESTS)
    assert alone.columns == ("HumanEval+", "MBPP+", "BigCodeBench")
    assert alone.models["1.5b"]["α = 0"] == [70.42, 62.10, 34.12]
    assert published()["tests"].without(TESTS).models == {}


def test_differences_are_paired_by_seed(result):
    first, second = result.lines
    assert first.cells[0].gain is None
    gain = second.cells[0].gain
    assert gain.value == pytest.approx(11)
    assert gain.margin == pytest.approx(4.3027 * 1 / np.sqrt(3), rel=1e-3)
    assert second.cells[0].certain
    assert second.cells[0].mean.margin > 40  # of the seeds themselves
    assert second.cells[1] is None


def test_the_same_figures_in_markdown_and_csv(result):
    assert "| best_<one> | 31.0 ± 52.2 (**+11.0 ± 2.5**) | – |" in markdown(result)
    rows = list(csv.DictReader(io.StringIO(comma_separated(result))))
    assert [(row["row"], row["figure"], float(row["mean"])) for row in rows] == [
        ("base", "good", 20.0),
        ("base", "other", 5.0),
        ("best_<one>", "good", 31.0),
    ]
    assert float(rows[2]["gain"]) == 11


def test_the_papers_tables_have_a_figure_for_every_column_and_add_up():
    for table in published().values():
        assert all(len(row) == len(table.columns) for rows in table.models.values() for row in rows.values())
    code = published()["code"].models
    for rows in code.values():
        for *parts, average in rows.values():
            assert average == pytest.approx(sum(parts) / 3, abs=0.02)
    for rows in published()["tests"].models.values():
        for right, killed, product in rows.values():
            assert product == pytest.approx(right * killed / 100, abs=0.02)


def micro_tables(lab: MicroLab) -> list[Table]:
    return list(tables(lab, lab.shown(published() | extensions())).values())


@pytest.mark.parametrize("model", MICROS)
def test_every_command_of_every_table_is_one_that_can_be_given(model, tmp_path):
    lab = MicroLab(tmp_path, model=model)
    commands = in_order(command for table in micro_tables(lab) for row in table.rows for command in row.commands(0))
    assert len({command.directory for command in commands}) == len(commands)
    for command in commands:
        if command.kind == "training":
            _, _, preset, *overrides = command.words
            config = load(Config, preset, overrides)
            assert config.run.seed == 0
            assert config.train.steps == (0 if preset == f"{model}/base" else lab.steps)
            assert micro.FORMS[config.data.task] is lab.form


def test_every_column_is_a_figure_that_an_evaluation_gives():
    documented = re.findall(r"eval/(\w+)", (ROOT / "docs" / "metrics.md").read_text())
    known = {*FIGURES, *documented, *(f"pass_at_{k}" for k in (1, 2, 4, 8)), "best_of_n"}
    for name, columns in COLUMNS.items():
        assert {key for _, key in columns} <= known, name


def test_tables_of_their_own_do_not_touch_the_papers():
    assert not published().keys() & extensions().keys()


def test_every_run_of_a_seed_starts_from_the_same_weights(tmp_path):
    starts = set()
    rows = [row for table in micro_tables(MicroLab(tmp_path)) for row in table.rows]
    for command in in_order(command for row in rows for command in row.commands(3)):
        if command.kind == "training":
            config = load(Config, command.words[2], command.words[3:])
            starts.add((config.run.seed, config.model, config.warm_start, config.data.problems))
    assert len(starts) == 1


# --- evaluations --------------------------------------------------------------------------------------------


def evaluated(folder: Path, name: str, **benchmarks: dict[str, tuple[float, float, float]]) -> Command:
    directory = folder / name
    directory.mkdir(parents=True)
    figures = {
        benchmark: {"problems": 9}
        | {key: dict(zip(("value", "low", "high"), each, strict=True)) for key, each in of.items()}
        for benchmark, of in benchmarks.items()
    }
    (directory / "summary.json").write_text(json.dumps({"benchmarks": figures}))
    return Command(directory, ("codea1", "eval"), "summary.json", "evaluation")


def test_a_mean_of_benchmarks_has_the_interval_of_independent_figures_and_the_papers_figure_next_to_it(tmp_path):
    one = evaluated(tmp_path, "one", first={"avg": (40.0, 37.0, 43.0)}, second={"avg": (60.0, 56.0, 64.0)})
    first, second = Figure(one, "avg", "first"), Figure(one, "avg", "second")
    row = TableRow(
        "a1", lambda _seed: ((first,), (second,), (first, second), (), (Figure(one, "avg", "third"),)), lambda _: None
    )
    paper = Published("T", {}, ("first", "second", "mean"), {"7b": {"a1": (41.5, 60.0, 50.75)}})
    made = Table("code", "T", ("first", "second", "mean", "nothing", "absent"), (row,))
    result = read_table(made, (0,), paper, "7b")
    means = [cell and (cell.mean.value, cell.mean.margin, cell.paper, cell.surplus) for cell in result.lines[0].cells]
    assert means == [(40, 3, 41.5, -1.5), (60, 4, 60, 0), (50, 5 / 2, 50.75, -0.75), None, None]
    assert (
        "| a1 | 40.0 ± 3.0; 41.50 [-1.5] | 60.0 ± 4.0; 60.00 [+0.0] | 50.0 ± 2.5; 50.75 [-0.8] | – | – |"
        in markdown(result)
    )
    line, *_ = csv.DictReader(io.StringIO(comma_separated(result)))
    assert (float(line["margin"]), float(line["paper"]), float(line["difference"])) == (3, 41.5, -1.5)
