"""Runs of several processes, each with its own devices, and runs that continue on other devices than they began on."""

import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_run import finish, saved, start_codea1, steps_done, train_arguments, wait_until, without_times
from workers import flags_for, free_port

TOLERANCE = 1e-3  # of figures: a sum over devices has another order
OF_LAYOUTS = ("code/padding", "test/padding", "decode_goodput/", "prefill_goodput/")  # other devices hold other rows
SMALLER_TEST_LLM = "test.model.architecture={family: llama, hidden_size: 16, intermediate_size: 32}"
OBJECTIVES = {  # advantages, losses, normalizers and corrections of what older policies have drawn; values of tests
    "whole step": (
        "train.async_steps=1",
        "rewards.advantages=centred",
        "code.grpo={loss: cispo, importance: token, importance_cap: 1.01}",
        "test.grpo={normalizer: constant, importance: icepop, importance_floor: 0.99, importance_cap: 1.01}",
    ),
    "each group": (
        "train.async_steps=1",
        "rewards.advantages=rloo",
        "code.grpo={ratio: sequence, importance: sequence, importance_cap: 1.01}",
        "test.grpo={normalizer: constant, importance: geometric, importance_floor: 0.99, importance_cap: 1.01}",
    ),
    "DAPO": (
        "train.refill=2",
        "rewards={advantages: rloo, test_value: mutation, only_right: true}",
        "code.grpo={mask_truncated: true, skip_zero_advantage: true, kl_coef: 0}",
        "test.grpo={mask_truncated: true, skip_zero_advantage: true, kl_coef: 0}",
    ),
    "Dr. GRPO": ("rewards.advantages=centred", "code.grpo.normalizer=constant", "test.grpo.normalizer=constant"),
}
MORE = ("train.steps=3", "checkpoint.every=1", "eval.every=3", "eval.suites=1")


def start(directory: Path, *more: str, processes: int, devices: int) -> list[subprocess.Popen[str]]:
    """A tiny run in that many processes with that many devices each."""
    port = free_port()
    environment = {"XLA_FLAGS": flags_for(devices)}
    hosts = [
        (f"hosts.coordinator=127.0.0.1:{port}", f"hosts.count={processes}", f"hosts.index={i}")
        for i in range(processes)
    ]
    return [
        start_codea1(
            *train_arguments(directory, *MORE, *(host if processes > 1 else ()), *more), environment=environment
        )
        for host in hosts
    ]


def assert_close(directory: Path, other: Path) -> None:
    """The same figures and the same parameters, up to rounding."""
    pairs = zip(without_times(directory), without_times(other), strict=True)
    for line, expected in (map(_of_any_layout, pair) for pair in pairs):
        assert line.pop("kind") == expected.pop("kind")
        assert line == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)
    arrays, others = (saved(path / "checkpoints", 3)[0] for path in (directory, other))
    assert arrays.keys() == others.keys()
    for name in arrays:
        np.testing.assert_allclose(arrays[name], others[name], rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


def _of_any_layout(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if not name.startswith(OF_LAYOUTS)}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one process on one device."""
    directory = tmp_path_factory.mktemp("alone")
    finish(start(directory, processes=1, devices=1)[0])
    return directory


def stop_both(processes: list[subprocess.Popen[str]], victim: int, number: int) -> list[tuple[int, str]]:
    """Signals one process; the codes of all, and what they said."""
    processes[victim].send_signal(number)
    said = [process.communicate(timeout=300)[1] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


@pytest.mark.long
def test_two_processes_of_four_devices_train_like_one_and_go_on_after_a_death_with_fewer(alone, tmp_path):
    for process in start(tmp_path / "two", processes=2, devices=4):
        finish(process)
    assert_close(tmp_path / "two", alone)

    stopped = tmp_path / "stopped"
    processes = start(stopped, processes=2, devices=4)
    wait_until(lambda: steps_done(stopped) >= 2, processes[0])
    wait_until((stopped / "checkpoints" / "1").exists, processes[0])
    (code, said), (killed, _) = stop_both(processes, victim=1, number=signal.SIGKILL)
    assert (code, killed) == (1, -signal.SIGKILL)
    assert re.search(r"codea1: .*--resume", said)
    finish(start(stopped, "--resume", processes=1, devices=4)[0])
    assert_close(stopped, alone)


@pytest.mark.long
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_two_different_models_train_in_two_processes_as_in_one(objective, tmp_path):
    """The Test LLM of another family, half as wide, each after a warm start of its own, by another policy gradient."""
    settings = (SMALLER_TEST_LLM, *OBJECTIVES[objective])
    for place, processes, devices in (("one", 1, 1), ("two", 2, 2)):
        for process in start(tmp_path / place, *settings, processes=processes, devices=devices):
            finish(process)
    assert_close(tmp_path / "two", tmp_path / "one")
    steps = [line for line in without_times(tmp_path / "one") if line["kind"] == "train"]
    assert all(max(step[f"{policy}/grad_norm"] for step in steps) > 1e-3 for policy in ("code", "test"))
    if "train.async_steps=1" in settings:
        assert max(step[f"{policy}/clip_fraction_importance"] for step in steps for policy in ("code", "test")) > 0


@pytest.mark.long
def test_a_signal_to_one_process_stops_both_at_the_same_step(alone, tmp_path):
    processes = start(tmp_path, processes=2, devices=2)
    wait_until(lambda: steps_done(tmp_path) >= 1, processes[0])
    ends = stop_both(processes, victim=1, number=signal.SIGTERM)
    assert [code for code, _ in ends] == [130, 130]
    assert "stopped by a signal to another host" in ends[0][1] and "stopped by SIGTERM" in ends[1][1]
    for process in start(tmp_path, "--resume", processes=2, devices=2):
        finish(process)
    assert_close(tmp_path, alone)


@pytest.mark.long
def test_a_run_goes_on_on_another_mesh(alone, tmp_path):
    process = start(tmp_path, processes=1, devices=8)[0]
    wait_until((tmp_path / "checkpoints" / "1").exists, process)
    process.kill()
    process.communicate()
    finish(start(tmp_path, "--resume", processes=1, devices=4)[0])
    assert_close(tmp_path, alone)


@pytest.mark.long
def test_a_bad_setting_of_one_process_is_told_by_all(tmp_path):
    """The first process finds the directory occupied; the other, which does not look, ends with the same line."""
    (tmp_path / "notes.txt").write_text("mine")
    for process in start(tmp_path, processes=2, devices=1):
        said = process.communicate(timeout=300)[1]
        assert process.returncode == 2, said
        assert f"codea1: run.directory: {tmp_path} is not empty" in said


def test_half_told_hosts_are_one_line(tmp_path):
    process = start_codea1(*train_arguments(tmp_path / "run", "hosts.count=2"))
    assert "codea1: hosts: set all of hosts.coordinator, hosts.count and hosts.index" in process.communicate()[1]
    assert process.returncode == 2
