"""What training changes: means over seeds with intervals, from beginning to end."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from codea1_jax.reproduce.commands import Command
from codea1_jax.reproduce.experiments import DYNAMICS, Table, TableRow
from codea1_jax.reproduce.results import ends

STEPS, SEEDS = 10, range(3)


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
    return Table("dynamics", "Curves", tuple(DYNAMICS), rows)


def test_the_change_is_that_of_the_last_fifth_against_the_first(table):
    golden, a1 = (dict(zip(DYNAMICS, line.cells, strict=True)) for line in ends(table, SEEDS).lines)
    assert golden["validity"] is golden["pass rate"] is None  # nobody is asked for tests in golden
    assert a1["validity"].mean.value == 50
    length = golden["tokens, Code LLM (self_play: both roles)"]
    assert (length.mean.value, length.gain.value) == (30 + 9.5, 8)
    reward = a1["code reward"]
    # Steps 9 and 10 against 1 and 2, the seeds being 0, 1 and 2.
    assert (reward.mean.value, reward.gain.value) == pytest.approx((5 * (9.5 + 1), 5 * 8))
    assert reward.gain.margin == pytest.approx(0, abs=1e-9)  # every seed gains the same
    assert "first fifth" in ends(table, SEEDS).against


def test_steps_without_a_figure_do_not_count(table):
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
    # Seed 0 has the figure from step 4 on, seed 2 from step 6 on: their first and last steps count.
    cell = ends(table, SEEDS).lines[1].cells[0]
    assert cell.gain.value == pytest.approx(5 * (6 + 5 + 4) / 3)


def test_an_untrained_row_has_no_figures(table):
    base = TableRow("base", lambda _seed: (), lambda _seed: None)
    with_base = replace(table, rows=(base, *table.rows))
    assert ends(with_base, SEEDS).lines[0].cells == (None,) * len(DYNAMICS)
