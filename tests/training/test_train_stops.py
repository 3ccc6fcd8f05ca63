"""A run on several hosts can be stopped at any point of a step, within seconds, and loses nothing but that step."""

import signal
import time
from pathlib import Path

import pytest
import slowed_run
from tiny_run import assert_same_end, finish, start_script, train_arguments, wait_until, without_times
from workers import free_port

STEPS = ("train.steps=3", "checkpoint.every=1", "eval.every=0")


def start_two(directory: Path, *more: str, slowed: tuple[str, ...] = ()):
    """A tiny run of two processes; `slowed` are the first arguments of slowed_run.py."""
    port = free_port()
    script = (slowed_run.__file__, *slowed) if slowed else ("-m", "codea1_jax")
    return [
        start_script(
            *script,
            *train_arguments(directory, *STEPS, *more),
            *(f"hosts.coordinator=127.0.0.1:{port}", "hosts.count=2", f"hosts.index={index}"),
        )
        for index in range(2)
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody stopped."""
    directory = tmp_path_factory.mktemp("whole")
    for process in start_two(directory):
        finish(process)
    return directory


def test_a_signal_before_the_first_step_stops_every_host(tmp_path):
    processes = start_two(tmp_path / "run")
    stderr = processes[0].stderr
    assert stderr is not None
    while "starting the judge" not in stderr.readline():
        assert processes[0].poll() is None
    for process in processes:
        process.send_signal(signal.SIGTERM)
    asked = time.monotonic()
    for process in processes:
        said = process.communicate(timeout=100)[1]
        assert process.returncode == 130, said
        assert said.splitlines()[-1] == "codea1: stopped"
    assert time.monotonic() - asked < 60
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("stage", "every"),
    [("generation", 3), ("judging", 3), ("update of code", 3), ("update of test", 1)],
    ids=["generation", "judging", "first update", "second update"],
)
def test_a_signal_within_a_step_saves_its_beginning_within_20_seconds(whole, tmp_path, stage, every):
    """In the second update the step's beginning is gone; it was saved before, since every step is."""
    run, marker = tmp_path / "run", tmp_path / "slow"
    processes = start_two(run, f"checkpoint.every={every}", slowed=(stage, "1", str(marker)))
    wait_until(marker.exists, processes[0])
    assert (run / "checkpoints" / "1").exists() == (every == 1)
    processes[1].send_signal(signal.SIGTERM)
    asked = time.monotonic()
    wait_until((run / "checkpoints" / "1").exists, processes[0])
    for process in processes:
        said = process.communicate(timeout=300)[1]
        assert process.returncode == 130, said
    assert time.monotonic() - asked < 20
    assert "2" not in [path.name for path in (run / "checkpoints").iterdir()], "an unfinished step was saved"
    assert_resumes_like(whole, run)


@pytest.mark.long
def test_a_judge_that_does_not_answer_ends_a_run_that_may_stop_on_a_stall(whole, tmp_path):
    """It says where its threads are, saves the step's beginning and can be resumed."""
    run, marker = tmp_path / "run", tmp_path / "slow"
    stall = ("hosts.stall_seconds=30.0", "hosts.stop_on_stall=true")  # longer than compiling takes
    for process in start_two(run, "checkpoint.every=3", *stall, slowed=("judging", "1", str(marker))):
        said = process.communicate(timeout=300)[1]
        assert process.returncode == 130, said
        assert "stalled: nothing for 3" in said
        assert "in slow_result" in said
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["1"]
    assert_resumes_like(whole, run)


def assert_resumes_like(whole: Path, run: Path) -> None:
    """A run that was stopped ends, resumed, as the one that nobody stopped."""
    for process in start_two(run, "--resume"):
        finish(process)
    assert_same_end(run / "checkpoints", whole / "checkpoints", step=3)
    assert without_times(run) == without_times(whole)
