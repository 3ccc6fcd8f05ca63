"""Metrics, rollouts, versions and progress of a run directory."""

import json
import logging
import sys
import types
from contextlib import closing
from pathlib import Path

import jax
import numpy as np
import pytest

from codea1_jax.common import console, files
from codea1_jax.common.files import read_lines
from codea1_jax.run import telemetry
from codea1_jax.run.telemetry import Metrics, as_line


def log_steps(metrics: Metrics, steps: range) -> None:
    for step in steps:
        metrics.write(as_line("train", step, {"code/reward": step / 7, "test/reward": 1 / (step + 1)}))
        if step % 2 == 0:
            metrics.write(as_line("eval", step, {"eval/avg_at_n": 10.0 * step}))


def without_times(run_dir: Path) -> list[dict]:
    lines = read_lines(run_dir / "metrics.jsonl")
    return [{name: value for name, value in line.items() if name != "time"} for line in lines]


def test_a_line_holds_kind_step_time_and_exact_values(tmp_path: Path) -> None:
    with closing(Metrics(tmp_path)) as metrics:
        metrics.write(
            as_line("train", 3, {"code/reward": np.float64(0.1), "book/tests": 4, "code/loss": np.float32(0.5)})
        )
        line = json.loads((tmp_path / "metrics.jsonl").read_text())  # on disk before close
    assert line.pop("time") > 1e9
    assert line == {"kind": "train", "step": 3, "code/reward": 0.1, "book/tests": 4.0, "code/loss": 0.5}


def test_a_fresh_run_forgets_an_earlier_one(tmp_path: Path) -> None:
    with closing(Metrics(tmp_path)) as metrics:
        log_steps(metrics, range(3))
    telemetry.write_rollouts(tmp_path, 0, "")
    with closing(Metrics(tmp_path)) as metrics:
        metrics.write(as_line("train", 0, {"loss": 1.0}))
    assert without_times(tmp_path) == [{"kind": "train", "step": 0, "loss": 1.0}]
    assert telemetry.rollout_steps(tmp_path) == []


def test_values_that_are_not_finite_become_null_with_a_warning(tmp_path: Path, caplog) -> None:
    with caplog.at_level(logging.WARNING), closing(Metrics(tmp_path)) as metrics:
        metrics.write(as_line("train", 1, {"loss": float("nan"), "norm": float("inf"), "reward": 0.5}))
    assert without_times(tmp_path) == [{"kind": "train", "step": 1, "loss": None, "norm": None, "reward": 0.5}]
    assert caplog.messages == ["step 1: not finite: loss, norm"]


def test_wandb_is_used_only_when_a_project_is_named(tmp_path: Path, monkeypatch) -> None:
    calls: list[tuple] = []
    run = types.SimpleNamespace(
        log=lambda values, step: calls.append(("log", values, step)), finish=lambda: calls.append(("finish",))
    )
    fake = types.SimpleNamespace(init=lambda **kwargs: calls.append(("init", kwargs["project"])) or run)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    with closing(Metrics(tmp_path / "plain")) as metrics:
        metrics.write(as_line("train", 1, {"loss": 1.0}))
    assert calls == []
    with closing(Metrics(tmp_path / "wandb", wandb_project="code-a1")) as metrics:
        metrics.write(as_line("train", 1, {"loss": 1.0}))
    assert calls == [("init", "code-a1"), ("log", {"loss": 1.0}, 1), ("finish",)]


def test_only_a_run_that_goes_on_keeps_its_record_in_wandb(tmp_path: Path, monkeypatch) -> None:
    asked: list[dict] = []
    run = types.SimpleNamespace(log=lambda values, step: None, finish=lambda: None)
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **kwargs: asked.append(kwargs) or run))
    for directory, resume_step in [("a/run", None), ("b/run", None), ("a/run", 3), ("a/run", None)]:
        with closing(Metrics(tmp_path / directory, resume_step, wandb_project="code-a1")):
            pass
    first, elsewhere, gone_on, anew = (each["id"] for each in asked)
    assert gone_on == first
    assert len({first, elsewhere, anew}) == 3
    assert {each["name"] for each in asked} == {"run"}
    assert {each["resume"] for each in asked} == {"allow"}


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: JSONDecodeError"):
        read_lines(path)


def test_rollouts_round_trip_whatever_the_models_wrote(tmp_path: Path) -> None:
    hostile = "</script>\u2028\n\0 \ud800 é 🎲"
    lines = telemetry.rollout_lines([{"step": 10, "question": hostile}, {"step": 10}])
    telemetry.write_rollouts(tmp_path, 10, lines)
    assert read_lines(tmp_path / "rollouts" / "step_000010.jsonl") == [{"step": 10, "question": hostile}, {"step": 10}]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch) -> None:
    telemetry.write_rollouts(tmp_path, 1, '{"step": 1}\n')
    path = telemetry.rollouts_path(tmp_path, 1)

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        telemetry.write_rollouts(tmp_path, 1, '{"step": 2}\n')
    assert read_lines(path) == [{"step": 1}]
    assert list(path.parent.iterdir()) == [path]


def test_versions_name_python_the_packages_and_the_devices() -> None:
    versions = telemetry.versions()
    assert versions["command"].split()[0] == Path(sys.argv[0]).name
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert versions["packages"]["jax"] == jax.__version__
    assert {"codea1-jax", "flax", "numpy"} <= versions["packages"].keys()
    assert sum(versions["devices"].values()) == jax.device_count()


def test_off_a_terminal_every_new_note_is_a_line_and_so_is_half_a_minute(capsys) -> None:
    now = [0.0]
    show = console.ProgressLines("runs", lambda: now[0])
    for seconds, done, note in ((1, 0, "a"), (2, 0, "a"), (3, 1, "b"), (20, 1, "b"), (34, 1, "b"), (35, 2, "b")):
        now[0] = seconds
        show(done, 3, note)
    assert capsys.readouterr().err.splitlines() == ["runs 0/3 a", "runs 1/3 b", "runs 1/3 b"]
    for seconds, stage, left in ((40, "compiling", None), (44, "sampling", None), (50, "sampling", 61.0)):
        now[0] = seconds
        show.activity(stage, 0, 9, "programs", "80 tokens", left)
    assert capsys.readouterr().err == "runs 2/3 b: sampling 0/9 programs, 80 tokens, 1:01 left\n"
    with console.progress_bar("problems") as progress:
        progress(1, 2)
    assert capsys.readouterr().err == ""


def test_a_small_negative_reward_has_no_sign() -> None:
    assert console.describe({"test/reward": -1e-5, "test/loss": 1.0}) == ["test reward 0.000"]
    assert console.describe({"test/loss": 0.25}) == ["loss 0.250"]  # of a supervised step
