"""Figures over seeds: means, Student's intervals, paired differences; and the tables made of them."""

import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from codea1_jax.config import Config, load
from codea1_jax.evals.scores.heldout import code_metrics
from codea1_jax.reproduce.commands import Command, in_order
from codea1_jax.reproduce.experiments import MicroBudget, Row, Table, micro_tables
from codea1_jax.reproduce.page import page
from codea1_jax.reproduce.published import published
from codea1_jax.reproduce.results import Result, mean, read_table
from codea1_jax.reproduce.write import comma_separated, latex, markdown
from codea1_jax.run.summary import FIGURES


@pytest.mark.parametrize("count", [2, 3, 5, 16])
def test_the_interval_over_seeds_is_students(count):
    values = np.random.default_rng(count).normal(50, 3, count).tolist()
    ours = mean(values)
    low, high = stats.t.interval(0.95, count - 1, loc=np.mean(values), scale=stats.sem(values))
    assert ours.value == pytest.approx(np.mean(values))
    assert ours.margin == pytest.approx((high - low) / 2, rel=5e-4)  # the quantiles are tabled to three places


def test_one_seed_has_no_interval_and_none_no_mean():
    assert mean([3.0]).margin is None
    with pytest.raises(ValueError, match="nothing to take a mean of"):
        mean([])


def run(folder: Path, name: str, seed: int, **figures: float) -> Command:
    directory = folder / f"{name}-{seed}"
    directory.mkdir(parents=True, exist_ok=True)
    early = {"kind": "eval", "step": 0, **dict.fromkeys(figures, 0.0)}
    last = {"kind": "eval", "step": 9, **{f"eval/{key}": value for key, value in figures.items()}}
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (early, last)))
    return Command(directory, ("train",), "summary.json")


@pytest.fixture
def result(tmp_path: Path) -> Result:
    """Over 3 seeds; the method gains 10, 11 and 12 in `good` while seeds differ by far more, and lacks `other`."""
    base = {seed: run(tmp_path, "base", seed, good=20.0 * seed, other=5.0) for seed in range(3)}
    best = {seed: run(tmp_path, "best", seed, good=20.0 * seed + 10 + seed) for seed in range(3)}
    rows = (Row("base", base.__getitem__), Row("best_<one>", best.__getitem__))
    return read_table(Table("t", "A title", (("good", "good"), ("other", "other")), rows), range(3))


def test_differences_are_paired_by_seed(result):
    first, second = result.lines
    assert first.cells[0].gain is None
    gain = second.cells[0].gain
    assert gain.value == pytest.approx(11)
    assert gain.margin == pytest.approx(4.3027 * 1 / np.sqrt(3), rel=1e-3)
    assert second.cells[0].certain
    assert second.cells[0].mean.margin > 40  # of the seeds themselves
    assert second.cells[1] is None


def test_the_same_figures_in_markdown_csv_and_latex(result):
    assert "| best_<one> | 31.0 ± 52.2 (**+11.0 ± 2.5**) | – |" in markdown(result)
    rows = list(csv.DictReader(io.StringIO(comma_separated(result))))
    assert [(row["row"], row["figure"], float(row["mean"])) for row in rows] == [
        ("base", "good", 20.0),
        ("base", "other", 5.0),
        ("best_<one>", "good", 31.0),
    ]
    assert float(rows[2]["gain"]) == 11
    assert r"best\_<one> & $31.0 \pm 52.2$ & -- \\" in latex(result)


def test_the_page_shows_every_row_and_needs_nothing_else(result):
    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.texts: list[str] = []
            self.links: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.links += [value for name, value in attrs if name in ("src", "href") and value]

        def handle_data(self, data: str) -> None:
            self.texts.append(data.strip())

    html = page([result], published(), "codea1 reproduce t", {})
    reader = Reader()
    reader.feed(html)
    assert {"best_<one>", "31.0 ± 52.2", "+11.0 ± 2.5", "A title"} <= set(reader.texts)
    assert all(link.startswith("#") for link in reader.links)
    assert "@import" not in html and "url(" not in html
    assert html == page([result], published(), "codea1 reproduce t", {})


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


def test_every_command_of_every_table_is_one_that_can_be_given(tmp_path):
    lab = MicroBudget(tmp_path)
    commands = in_order(row.command(0) for table in micro_tables(lab).values() for row in table.rows)
    assert len({command.directory for command in commands}) == len(commands)
    for command in commands:
        if command.arguments[0] == "train":
            _, preset, *overrides = command.arguments
            config = load(Config, preset, overrides)
            assert config.run.seed == 0
            assert config.train.steps == (0 if preset == "micro/base" else lab.steps)


def test_every_column_is_a_figure_that_an_evaluation_gives(tmp_path):
    known = {*FIGURES, *(name.removeprefix("eval/") for name in code_metrics(8)), "best_of_n"}
    for table in micro_tables(MicroBudget(tmp_path)).values():
        assert table.name == "dynamics" or {key for _, key in table.columns} <= known, table.name


def test_every_run_of_a_seed_starts_from_the_same_weights(tmp_path):
    lab = MicroBudget(tmp_path)
    starts = set()
    for command in in_order(row.command(3) for table in micro_tables(lab).values() for row in table.rows):
        if command.arguments[0] == "train":
            config = load(Config, command.arguments[1], command.arguments[2:])
            starts.add((config.run.seed, config.model, config.warm_start, config.data.problems))
    assert len(starts) == 1
