"""Runs on the GPUs of several machines, through SLURM."""

import sys

import pytest
from fake_cloud import ROOT, Script

TRAIN = ["train", "1.5b/a1_h100", "train.steps=3", "run.directory=runs/first", "--resume"]
RUN = ("first", "1.5b/a1_h100", "train.steps=3")


@pytest.fixture(autouse=True)
def quick_python(monkeypatch):
    """`codea1` is a fake, and so is the Python that would start it."""
    monkeypatch.setattr(sys, "executable", "codea1")


def test_a_tpu_is_not_a_gpu(cloud, capsys):
    assert cloud.launch("slurm", "up", *RUN, "--gpus=v5e:2x2") == 2
    assert "use `python -m launch tpu`" in capsys.readouterr().err


def test_slurm_checks_the_run_then_queues_it_once(cloud):
    flags = ("--nodes=2", "--gpus=h100:4", "--sbatch-flag=--partition=gpu", "--poll=0")
    assert cloud.launch("slurm", "up", *RUN, *flags) == 0
    (queued,) = [call for call in cloud.calls if call[0] == "sbatch"]
    assert queued == [
        *("sbatch", "--parsable", "--job-name=first", "--nodes=2", "--gpus-per-node=4", "--output=runs/first.log"),
        *("--partition=gpu", "launch/slurm.sbatch", "codea1", *TRAIN),
    ]
    assert ["codea1", "plan", "1.5b/a1_h100", "train.steps=3", "--topology", "h100:8"] in cloud.calls
    cloud.job = 5
    assert cloud.launch("slurm", "start", *RUN, *flags) == 0
    assert cloud.verbs == ["sbatch"]


def test_slurm_proves_all_nodes_in_place_of_training(cloud):
    flags = ("--nodes=2", "--gpus=h100:8", "--poll=0")
    assert cloud.launch("slurm", "up", *RUN, *flags, "--selftest") == 0
    (queued,) = [call for call in cloud.calls if call[0] == "sbatch"]
    assert queued[-4:] == ["selftest", "1.5b/a1_h100", "train.steps=3", "mesh.replica=2"]
    assert not any(call[:2] in (["codea1", "plan"], ["codea1", "rehearse"]) for call in cloud.calls)
    with pytest.raises(SystemExit):
        cloud.launch("slurm", "up", *RUN, *flags, "--selftest", "--eval=code --model m")


def test_a_preset_for_one_node_has_a_replica_on_each(cloud):
    assert cloud.launch("slurm", "up", *RUN, "--nodes=2", "--gpus=h100:8", "--poll=0") == 0
    (queued,) = [call for call in cloud.calls if call[0] == "sbatch"]
    assert "mesh.replica=2" in queued
    assert ["codea1", "plan", "1.5b/a1_h100", "train.steps=3", "--topology", "h100:8"] in cloud.calls  # each the same


@pytest.mark.parametrize(("check", "failing"), [("plan", "codea1 plan"), ("rehearsal", "codea1 rehearse")])
def test_slurm_gets_no_job_that_cannot_work(cloud, capsys, check, failing):
    cloud.script = Script(failures={failing: (9, "no room", 1)})
    assert cloud.launch("slurm", "up", *RUN) == 2
    assert f"refused by {check}: " in capsys.readouterr().err
    assert cloud.verbs == []


def test_slurm_steps_alone(cloud, capsys):
    cloud.job = 1
    assert cloud.launch("slurm", "stop", "first", "--gpus=h100:8") == 0
    assert cloud.calls[-1] == ["scancel", "--me", "--name=first"]
    assert cloud.launch("slurm", "logs", "first", "--gpus=h100:8", "--dry-run") == 0
    assert "runs/first.log" in capsys.readouterr().out


# --- images ---------------------------------------------------------------------------------------


def test_the_image_copies_existing_files():
    text = (ROOT / "launch" / "Dockerfile").read_text()
    copied = [word for line in text.splitlines() if line.startswith("COPY") for word in line.split()[1:-1]]
    assert copied and all((ROOT / word).exists() for word in copied)
