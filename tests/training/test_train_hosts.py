"""Runs of several processes and over meshes: they train like one process on one device, stop together and resume."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_run import (
    assert_same_end,
    finish,
    first_run,
    saved,
    start_script,
    steps_done,
    train_arguments,
    wait_until,
    without_times,
)
from workers import flags_for, free_port

from codea1_jax import cli
from codea1_jax.common.files import read_lines
from codea1_jax.run.telemetry import rollouts_path

TOLERANCE = 1e-3  # of figures: a sum over devices has another order
OF_LAYOUTS = ("code/padding", "test/padding", "decode_goodput/", "prefill_goodput/")  # other devices hold other rows
SMALLER_TEST_LLM = "test.model.architecture={family: llama, hidden_size: 16, intermediate_size: 32}"
OBJECTIVES = {
    "GRPO": (),
    "DAPO": (
        "train.refill=2",
        "rewards={advantages: rloo, test_value: mutation, only_right: true}",
        "code.grpo={mask_truncated: true, skip_zero_advantage: true, kl_coef: 0}",
        "test.grpo={mask_truncated: true, skip_zero_advantage: true, kl_coef: 0}",
    ),
    "Dr. GRPO": ("rewards.advantages=centred", "code.grpo.normalizer=constant", "test.grpo.normalizer=constant"),
}
EVERY_STEP = ("train.steps=3", "checkpoint.every=1", "eval.every=3", "eval.suites=1")


def start(directory: Path, *more: str, processes: int = 2, devices: int = 1) -> list[subprocess.Popen[str]]:
    """A tiny run in that many processes with that many devices each."""
    port = free_port()
    hosts = [
        (f"hosts.coordinator=127.0.0.1:{port}", f"hosts.count={processes}", f"hosts.index={i}")
        for i in range(processes)
    ]
    return [
        start_script(
            *("-m", "codea1_jax.cli"),
            *train_arguments(directory, *EVERY_STEP, *(host if processes > 1 else ()), *more),
            XLA_FLAGS=flags_for(devices),
        )
        for host in hosts
    ]


def trained(directory: Path, *more: str, processes: int = 2, devices: int = 1) -> Path:
    for process in start(directory, *more, processes=processes, devices=devices):
        finish(process)
    return directory


def assert_close_figures(lines: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    for line, expected in (map(_of_any_layout, pair) for pair in zip(lines, others, strict=True)):
        assert line.pop("kind") == expected.pop("kind")
        assert line == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)


def _of_any_layout(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if not name.startswith(OF_LAYOUTS)}


def assert_close(directory: Path, other: Path) -> None:
    """The same figures and the same parameters, up to rounding."""
    assert_close_figures(without_times(directory), without_times(other))
    arrays, others = (saved(path / "checkpoints", 3)[0] for path in (directory, other))
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        error = np.abs(array.astype(float) - others[name])
        # Adam steps by the sign of a gradient, which of rounding alone may be either: of few numbers, by a few steps.
        assert np.mean(error > TOLERANCE * (1 + np.abs(others[name]))) < 1e-3 and np.max(error) < 10 * TOLERANCE, name


def test_two_processes_draw_what_one_draws_and_learn_the_same(tmp_path):
    """The first step of the run that all tests share."""
    whole = first_run()
    directory = trained(tmp_path / "run", "train.steps=1", "eval.every=0")
    assert rollouts_path(directory, 1).read_bytes() == rollouts_path(whole, 1).read_bytes()
    (line,), (expected, *_) = (
        [line for line in without_times(path) if line["kind"] == "train"] for path in (directory, whole)
    )
    assert_close_figures([line], [expected])


def test_half_told_hosts_are_refused_in_a_line(tmp_path, capsys):
    assert cli.main(train_arguments(tmp_path, "hosts.count=2")) == 2
    line = "codea1: hosts: set all of hosts.coordinator, hosts.count and hosts.index"
    assert capsys.readouterr().err.startswith(line)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one process on one device."""
    return trained(tmp_path_factory.mktemp("alone"), processes=1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that nobody stopped. After its first step it compiles nothing."""
    run = trained(tmp_path_factory.mktemp("whole"))
    steps = [line["compiled/programs"] for line in read_lines(run / "metrics.jsonl") if line["kind"] == "train"]
    assert steps[1:] == [0.0, 0.0]
    return run


def assert_resumes_like(whole: Path, run: Path) -> None:
    """A run that was stopped ends, resumed, as the one that nobody stopped."""
    trained(run, "--resume")
    assert_same_end(run / "checkpoints", whole / "checkpoints", step=3)
    assert without_times(run) == without_times(whole)


@pytest.mark.long
def test_two_processes_of_four_devices_train_like_one_and_go_on_after_a_death_with_fewer(alone, tmp_path):
    assert_close(trained(tmp_path / "two", "mesh.fsdp=4", "mesh.tensor=2", devices=4), alone)
    stopped = tmp_path / "stopped"
    survivor, victim = start(stopped, devices=4)
    wait_until(lambda: steps_done(stopped) >= 2, survivor)
    wait_until((stopped / "checkpoints" / "1").exists, survivor)
    victim.kill()
    for process in (survivor, victim):
        process.communicate()
    assert survivor.returncode in (1, -signal.SIGABRT)  # by itself, or by JAX
    assert_close(trained(stopped, "--resume", processes=1, devices=4), alone)


@pytest.mark.long
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_two_different_models_train_in_two_processes_as_in_one(objective, tmp_path):
    """The Test LLM of another family, half as wide, each after a warm start of its own, by another policy gradient."""
    settings = (SMALLER_TEST_LLM, *OBJECTIVES[objective])
    one = trained(tmp_path / "one", *settings, processes=1)
    assert_close(trained(tmp_path / "two", *settings, devices=2), one)
    steps = [line for line in without_times(one) if line["kind"] == "train"]
    assert all(max(step[f"{policy}/grad_norm"] for step in steps) > 1e-3 for policy in ("code", "test"))


@pytest.mark.long
def test_a_bad_setting_of_one_process_is_told_by_all(tmp_path):
    """The first process finds the directory occupied; the other, which does not look, ends with the same line."""
    (tmp_path / "notes.txt").write_text("mine")
    for process in start(tmp_path):
        said = process.communicate()[1]
        assert process.returncode == 2, said
        assert f"codea1: run.directory: {tmp_path} is not empty" in said


@pytest.mark.long
def test_a_signal_before_the_first_step_stops_every_host(tmp_path):
    processes = start(tmp_path / "run")
    stderr = processes[0].stderr
    assert stderr is not None
    while "starting the judge" not in stderr.readline():
        assert processes[0].poll() is None
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        said = process.communicate()[1]
        assert process.returncode == 130, said
        assert said.splitlines()[-1] == "codea1: stopped"
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.long
def test_a_signal_to_one_process_stops_both_after_what_they_compute_and_saves_the_last_whole_step(whole, tmp_path):
    run = tmp_path / "run"
    processes = start(run, "checkpoint.every=3")
    wait_until(lambda: steps_done(run) >= 1, processes[0])
    processes[1].send_signal(signal.SIGTERM)
    said = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [130, 130], said
    assert "stopped by a signal to another host" in said[0] and "stopped by SIGTERM" in said[1]
    assert (run / "checkpoints" / str(steps_done(run))).exists() and (run / "report.html").exists()
    assert_resumes_like(whole, run)
