"""What a report takes from run directories: which rollouts, which points, which runs belong together."""

import json
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from codea1_jax.run.report import build_report
from codea1_jax.run.report.run_data import MAX_POINTS, MAX_STEPS, choose_rollouts, evenly_spaced, read_runs
from codea1_jax.run.telemetry import Metrics, as_line, rollout_lines, write_rollouts


def question(step: int, question_id: str, size: int = 1) -> dict:
    return {"step": step, "question_id": question_id, "question": "q" * size, "programs": []}


def ids(questions) -> list[str]:
    return [one["question_id"] for one in questions]


def make_run(path: Path, config: dict | None = None) -> Path:
    path.mkdir(parents=True)
    if config is None:
        (path / "metrics.jsonl").touch()
    else:
        (path / "config.yaml").write_text(yaml.safe_dump(config))
    return path


def test_evenly_spaced_keeps_both_ends_and_never_repeats() -> None:
    assert evenly_spaced(range(5), 12) == [0, 1, 2, 3, 4]
    assert evenly_spaced(range(0, 101, 10), 3) == [0, 50, 100]
    for length in range(13, 60):
        chosen = evenly_spaced(range(length), 12)
        assert len(set(chosen)) == 12
        assert (chosen[0], chosen[-1]) == (0, length - 1)


def test_many_steps_are_thinned_and_the_page_knows_how_many_there_were(tmp_path: Path) -> None:
    assert choose_rollouts(tmp_path, 1000).steps == ()
    for step in range(1, 31):
        write_rollouts(tmp_path, step, rollout_lines([question(step, f"seen once, at {step}")]))
    chosen = choose_rollouts(tmp_path, 100_000)
    assert chosen.recorded_steps == 30
    assert [one.step for one in chosen.steps] == evenly_spaced(range(1, 31), MAX_STEPS)


def test_every_step_gets_its_share_and_the_last_steps_questions_come_first(tmp_path: Path) -> None:
    first = [question(1, "once", 400), question(1, "last", 400), question(1, "huge", 5000)]
    write_rollouts(tmp_path, 1, rollout_lines(first))
    write_rollouts(tmp_path, 2, rollout_lines([question(2, "last", 400), question(2, "other", 5000)]))
    chosen = choose_rollouts(tmp_path, 2 * 500)
    assert [(one.step, one.recorded, ids(one.questions)) for one in chosen.steps] == [
        (1, 3, ["last"]),
        (2, 2, ["last"]),
    ]
    roomy = choose_rollouts(tmp_path, 2 * 1000)
    assert [ids(one.questions) for one in roomy.steps] == [["once", "last"], ["last"]]


def test_a_page_never_holds_more_than_its_budget(tmp_path: Path) -> None:
    for step in range(1, 40):
        write_rollouts(tmp_path, step, rollout_lines([question(step, str(i), 50 * (i + step % 5)) for i in range(9)]))
    for budget in (100, 1_000, 10_000, 50_000):
        chosen = choose_rollouts(tmp_path, budget)
        kept = [q for one in chosen.steps for q in one.questions]
        assert sum(len(json.dumps(q, separators=(",", ":"))) for q in kept) <= budget


def test_long_curves_are_thinned_with_both_ends(tmp_path: Path) -> None:
    lines = [{"kind": "train", "step": step, "time": 0.0, "loss": step / 7} for step in range(2500)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    train = read_runs([tmp_path], 0)[0].metrics["train"]
    assert len(train["step"]) == len(train["loss"]) == MAX_POINTS
    assert (train["step"][0], train["step"][-1]) == (0, 2499)
    assert train["loss"][-1] == pytest.approx(2499 / 7, rel=1e-5)


def test_runs_that_differ_only_in_their_seed_are_one_group(tmp_path: Path) -> None:
    config = {"run": {"directory": "x", "seed": 0}, "alpha": 0.5}
    runs = [
        make_run(tmp_path / "a1-seed0", config),
        make_run(tmp_path / "a1-seed1", {**config, "run": {"directory": "y", "seed": 1}}),
        make_run(tmp_path / "golden", {**config, "alpha": 1.0}),
        make_run(tmp_path / "bare"),
        make_run(tmp_path / "bare2"),
    ]
    assert [run.group for run in read_runs(runs, 0)] == ["a1", "a1", "golden", "bare", "bare2"]


def test_groups_and_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{i}", {"alpha": alpha, "seed": i}) for i, alpha in enumerate((0.5, 0.5, 1.0, 1.0))]
    assert [run.group for run in read_runs(runs, 0)] == ["run0", "run0", "run2", "run2"]
    runs = [make_run(tmp_path / "a1" / "seed0"), make_run(tmp_path / "golden" / "seed0")]
    assert [run.name for run in read_runs(runs, 0)] == ["a1/seed0", "golden/seed0"]


def test_several_runs_make_one_page_beside_the_first(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b")]
    for run in runs:
        with closing(Metrics(run)) as metrics:
            metrics.write(as_line("eval", 0, {"eval/mul": 10.0}))
    path = build_report(runs)
    assert path == tmp_path / "comparison.html"
    assert "<title>a vs b · Code-A1</title>" in path.read_text()
