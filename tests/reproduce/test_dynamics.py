"""Figures by training step: means over seeds with intervals, the change from beginning to end, and curves drawn."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.dynamics import charts, ends, read_dynamics
from codea1_jax.reproduce.experiments import Figure, Table, TableRow
from codea1_jax.reproduce.page import page
from codea1_jax.reproduce.published import Published
from codea1_jax.reproduce.results import read_figure

STEPS, SEEDS = 10, range(3)
COLUMNS = (("reward", "code/reward"), ("validity", "test/validity"), ("length", "code/response_tokens"))


def run(folder: Path, name: str, seed: int, validity: float | None) -> Command:
    """The reward of step s is (s + seed)/20; responses get one token longer in every step."""
    directory = folder / f"{name}-{seed}"
    directory.mkdir(parents=True)
    lines = [{"kind": "eval", "step": 0, "eval/mul": 1.0}]
    for step in range(1, STEPS + 1):
        figures = {"code/reward": (step + seed) / 20, "code/response_tokens": 30.0 + step}
        lines.append({"kind": "train", "step": step, "test/validity": validity or 0.0, "pass_rate": 0.0} | figures)
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Command(directory, ("codea1", "train"), "summary.json", "training")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two methods, of which golden asks for no tests."""
    commands = {name: [run(tmp_path, name, s, v) for s in SEEDS] for name, v in (("golden", None), ("a1", 0.5))}
    rows = tuple(TableRow(name, lambda _seed: (), found.__getitem__) for name, found in commands.items())
    return Table("dynamics", "Curves", tuple(title for title, _ in COLUMNS), rows, COLUMNS)


# In 9 steps, drawn as wide as our 10.
PAPER = Published("Curves", {}, (), {}, {"reward": {"a1": ((1, 0.0), (5, 100.0), (9, 50.0)), "unknown": ((1, 5.0),)}})


def test_every_step_is_a_mean_over_seeds_with_students_interval(table):
    reward, validity, length = read_dynamics(table, SEEDS, PAPER)
    means = {step: one.value for step, one in reward.lines["a1"].items()}
    assert means == pytest.approx({step: 5 * (step + 1) for step in range(1, 11)})
    low, high = stats.t.interval(0.95, 2, loc=0, scale=stats.sem([0, 5, 10]))
    assert reward.lines["a1"][4].margin == pytest.approx((high - low) / 2, rel=1e-3)
    assert list(validity.lines) == ["a1"]  # nobody is asked for tests in golden
    assert [one.value for one in length.lines["golden"].values()] == [30 + step for step in range(1, 11)]


def test_the_change_is_that_of_the_last_fifth_against_the_first(table):
    golden, a1 = ends(table, SEEDS).lines
    assert golden.cells[1] is None
    reward = a1.cells[0]
    # Steps 9 and 10 against 1 and 2, the seeds being 0, 1 and 2.
    assert (reward.mean.value, reward.gain.value) == pytest.approx((5 * (9.5 + 1), 5 * 8))
    assert reward.gain.margin == pytest.approx(0, abs=1e-9)  # every seed gains the same
    assert "first fifth" in ends(table, SEEDS).against


def test_a_curve_has_the_steps_at_which_every_seed_has_its_figure(table):
    """As the share of the mistake book's tests that programs pass: none before a question comes a second time."""
    for row in table.rows:
        for seed in SEEDS:
            metrics = row.run(seed).directory / "metrics.jsonl"
            lines = [json.loads(line) for line in metrics.read_text().splitlines()]
            kept = [
                {name: value for name, value in line.items() if name != "code/reward" or line["step"] > 3 + seed}
                for line in lines
            ]
            metrics.write_text("".join(json.dumps(line) + "\n" for line in kept))
    reward, _, length = read_dynamics(table, SEEDS, PAPER)
    assert {step: one.value for step, one in reward.lines["a1"].items()} == pytest.approx(
        {step: 5 * (step + 1) for step in range(6, 11)}
    )
    assert list(length.lines["a1"]) == list(range(1, 11))
    # Seed 0 has the figure from step 4 on, seed 2 from step 6 on: their first and last steps count.
    cell = ends(table, SEEDS).lines[1].cells[0]
    assert cell.gain.value == pytest.approx(5 * (6 + 5 + 4) / 3)


def test_the_papers_curves_are_drawn_behind_ours_over_the_same_steps(table):
    curves = read_dynamics(table, SEEDS, PAPER)
    assert list(curves[0].paper) == ["a1"]  # of the rows that are there
    behind, golden, a1 = charts(curves)[0]["series"]
    assert (behind["label"], behind["faint"], behind["style"]) == ("a1, the paper's", True, a1["style"])
    assert (behind["steps"], behind["values"]) == ([1, 5, 10], [0.0, 100.0, 50.0])
    assert golden["style"] != a1["style"] and list(golden["steps"]) == list(range(1, STEPS + 1))


def test_the_papers_counts_are_drawn_behind_runs_of_as_many_questions_only(table):
    counts = replace(PAPER, curves={"length": {"a1": ((1, 5.0), (9, 6.0))}} | PAPER.curves)
    for comparable, drawn in ((True, ["a1"]), (False, [])):
        reward, _, length = read_dynamics(table, SEEDS, counts, comparable_counts=comparable)
        assert (list(reward.paper), list(length.paper)) == (["a1"], drawn)


def test_an_untrained_row_has_no_curves(table):
    base = TableRow("base", lambda _seed: (), lambda _seed: None)
    with_base = replace(table, rows=(base, *table.rows))
    assert list(read_dynamics(with_base, SEEDS, PAPER)[0].lines) == ["golden", "a1"]
    assert ends(with_base, SEEDS).lines[0].cells == (None, None, None)


def test_charts_have_means_inside_their_bands_and_the_page_holds_them(table):
    curves = read_dynamics(table, SEEDS, Published("Curves", {}, (), {}, {}))
    reward, validity, length = drawn = charts(curves)
    [_, a1] = reward["series"]
    assert a1["values"] == sorted(a1["values"]) and len(a1["values"]) == STEPS
    assert all(low < value < high for low, value, high in zip(a1["low"], a1["values"], a1["high"], strict=True))
    assert [(one["label"], one["style"]) for one in validity["series"]] == [("a1", a1["style"])] != [("a1", 0)]
    assert (reward["unit"], length["unit"]) == ("%", "count")
    html = page([ends(table, SEEDS)], {}, "codea1 reproduce dynamics", {"dynamics": drawn})
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    assert json.loads(data) == {"dynamics": {"curves": drawn, "plots": []}}


def test_figures_of_training_are_of_the_last_fifth_of_the_steps_that_have_them(tmp_path):
    done = run(tmp_path, "a1", 0, 0.5)
    (done.directory / "summary.json").write_text("{}")
    metrics = done.directory / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    for line in lines[6:]:  # the book is met from step 6 on: 5 steps have the figure, of which the last counts
        line["book/relapse"] = line["step"] / 40
    lines.append({"kind": "eval", "step": STEPS, "eval/avg_at_n": 30.0})
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_figure(Figure(done, "relapse")).value == pytest.approx(100 * 10 / 40)
    # Rewards of steps 9 and 10 are 9/20 and 10/20.
    assert read_figure(Figure(done, "reward_above_truth")).value == pytest.approx(47.5 - 30)
    without = run(tmp_path, "golden", 0, None)
    (without.directory / "summary.json").write_text("{}")
    assert read_figure(Figure(without, "relapse")) is None
    assert read_figure(Figure(without, "reward_above_truth")) is None
