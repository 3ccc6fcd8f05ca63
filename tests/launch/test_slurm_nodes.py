"""The batch script on two nodes: stopped in every way that SLURM has, the job is requeued once, and resumes."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_slurm import LIMIT, Slurm
from fake_worker import wait_for
from slurm_programs import CANCELLED, COMPLETED, PENDING
from tiny_run import ROOT, SETTINGS, steps_done

from codea1_jax.common.files import read_lines
from launch.cli import main

# Five steps of training, in place of `codea1`: the first node counts them in `steps`. The job is asked to stop when it
# first reaches the third, and each node then exits after its DELAY, with its CODE.
TRAINING = """\
#!/bin/bash
read -r delay code <"node$SLURM_PROCID"
trap 'sleep "$delay"; exit "$code"' TERM
touch "ready$SLURM_PROCID"
while (($(cat steps) < 5)); do
    if (($(cat steps) == 2)) && [[ ! -e resumed ]]; then
        sleep 0.05
    elif ((SLURM_PROCID == 0)); then
        echo $(($(cat steps) + 1)) >steps.new
        mv steps.new steps
    fi
done
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """A cluster on PATH, with a directory to launch from."""
    slurm = Slurm(tmp_path / "slurm")
    (tmp_path / "launch").symlink_to(ROOT / "launch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{slurm.bin}:{os.environ['PATH']}")
    yield slurm
    slurm.kill()


def train(slurm: Slurm, monkeypatch: pytest.MonkeyPatch, *nodes: str) -> None:
    """Launches the stand-in for training and returns when both nodes train. nodes: seconds and exit code of each."""
    program = Path("python")
    program.write_text(TRAINING)
    program.chmod(0o755)
    Path("steps").write_text("0")
    for index, node in enumerate(nodes):
        Path(f"node{index}").write_text(f"{node}\n")
    monkeypatch.setattr(sys, "executable", str(program.absolute()))
    assert main(("slurm", "start", "first", "micro/a1", "--nodes=2", "--gpus=h100:1")) == 0
    slurm.start()
    wait_for(lambda: Path("ready0").exists() and Path("ready1").exists() and Path("steps").read_text() == "2\n")


def resume(slurm: Slurm) -> None:
    """The job starts again, and must finish."""
    Path("resumed").touch()
    slurm.start()
    assert slurm.end() == 0
    assert Path("steps").read_text() == "5\n"
    assert slurm.state == COMPLETED


@pytest.mark.parametrize(
    "nodes",
    [
        ("0 130", "0 130"),
        ("0 130", "0 1"),
        ("0 1", "2 130"),  # a node that exits does not kill the one that saves
        ("2 130", "0 1"),
        ("0 143", "0 143"),  # before training began
    ],
)
def test_a_job_near_its_time_limit_is_requeued_once_and_resumes(slurm, monkeypatch, nodes):
    train(slurm, monkeypatch, *nodes)
    slurm.warn()
    assert slurm.end() == max(int(node.split()[1]) for node in nodes)
    assert slurm.requeues == ["job"]
    resume(slurm)
    assert slurm.requeues == ["job"]


def test_a_preemption_with_grace_time_lets_the_nodes_save_and_the_job_requeue_itself(slurm, monkeypatch):
    train(slurm, monkeypatch, "1 130", "1 130")
    slurm.preempt_in_grace()
    assert slurm.end() == 130
    assert slurm.requeues == ["job"]
    resume(slurm)


def test_a_job_that_slurm_requeues_does_not_requeue_itself(slurm, monkeypatch):
    train(slurm, monkeypatch, "1 130", "1 130")
    slurm.preempt()
    assert slurm.end() == 130
    assert slurm.requeues == ["slurm"]
    resume(slurm)


def test_a_cancelled_job_saves_and_stays_cancelled(slurm, monkeypatch):
    train(slurm, monkeypatch, "1 130", "0 130")
    slurm.cancel()
    assert slurm.end() == 130
    assert (slurm.state, slurm.requeues) == (CANCELLED, [])


@pytest.mark.parametrize("code", [1, 2, 134])
def test_failed_training_is_not_requeued(slurm, monkeypatch, code):
    train(slurm, monkeypatch, f"0 {code}", f"0 {min(code, 1)}")
    slurm.warn()  # upon which the stand-in fails
    assert slurm.end() == code
    assert slurm.requeues == []


def test_a_job_that_is_stopped_again_and_again_gives_up(slurm, monkeypatch):
    slurm.restarts = 100
    train(slurm, monkeypatch, "0 130", "0 130")
    slurm.warn()
    assert slurm.end() == 130
    assert (slurm.state, slurm.requeues) == (COMPLETED, [])
    assert "stopped after 100 restarts; not requeued" in slurm.log


def test_a_job_that_slurm_does_not_requeue_reports_it(slurm, monkeypatch):
    train(slurm, monkeypatch, "0 130", "0 130")
    (slurm.directory / "refuses").touch()
    slurm.warn()
    assert slurm.end() == 130
    assert "SLURM did not requeue it" in slurm.log


@pytest.mark.long
def test_real_training_on_two_nodes_is_stopped_requeued_once_and_resumes(slurm, monkeypatch):
    """The processes find each other through SLURM's environment, as JAX reads it."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    settings = (*SETTINGS, "train.steps=3", "checkpoint.every=1", "eval.every=0")
    assert main(("slurm", "start", "first", "micro/a1_paper", *settings, "--nodes=2", "--gpus=h100:1")) == 0
    slurm.start()
    run = Path("runs/first")
    wait_for(lambda: steps_done(run) >= 1, LIMIT)
    slurm.warn()
    assert slurm.end() == 130, slurm.log
    assert slurm.requeues == ["job"]
    assert slurm.state == PENDING
    slurm.start()
    assert slurm.end() == 0, slurm.log
    assert [line["step"] for line in read_lines(run / "metrics.jsonl") if line["kind"] == "train"] == [1, 2, 3]
    assert slurm.requeues == ["job"]
