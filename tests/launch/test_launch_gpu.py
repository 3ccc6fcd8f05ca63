"""Runs on GPUs: all of one machine, and several machines through SLURM."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from fake_cloud import ROOT, Script

TRAIN = ["train", "1.5b/a1_h100", "train.steps=3", "run.directory=runs/first", "--resume"]
RUN = ("first", "1.5b/a1_h100", "train.steps=3")


@pytest.fixture(autouse=True)
def quick_python(monkeypatch):
    """`codea1` is a fake, and so is the Python that would start it."""
    monkeypatch.setattr(sys, "executable", "codea1")


# --- one machine ----------------------------------------------------------------------------------


def test_one_machine_is_checked_then_trains(cloud):
    assert cloud.launch("gpu", "up", *RUN) == 0
    doctor, rehearsal, plan, train = cloud.calls
    assert doctor == ["codea1", "doctor", "1.5b/a1_h100", "train.steps=3", "hardware=h100:8"]
    assert plan == ["codea1", "plan", "1.5b/a1_h100", "train.steps=3", "--topology", "h100:8"]
    assert rehearsal == ["codea1", "rehearse", *plan[2:], "--directory", "rehearsals/first"]
    assert train == ["codea1", *TRAIN]


def test_one_machine_evaluates_in_place_of_training(cloud):
    assert cloud.launch("gpu", "up", "first", "1.5b/a1_h100", "--eval=code --data a.parquet --model m") == 0
    doctor, evaluation = cloud.calls
    assert doctor == ["codea1", "doctor"]  # its data and its bucket are not the training's
    assert evaluation == ["codea1", *["eval", "code", "--data", "a.parquet", "--model", "m", "--out", "runs/first"]]


def test_the_machine_is_proved_before_training_where_that_is_asked_for(cloud):
    assert cloud.launch("gpu", "up", *RUN, "--selftest") == 0
    assert cloud.calls[-2] == ["codea1", "selftest", "1.5b/a1_h100", "train.steps=3"]
    assert cloud.calls[-1] == ["codea1", *TRAIN]


def test_a_machine_that_doctor_finds_wanting_is_refused(cloud, capsys):
    cloud.script = Script(failures={"codea1 doctor": (9, "FAIL hardware: here: 4 of gpu", 1)})
    assert cloud.launch("gpu", "up", *RUN) == 2
    assert "FAIL doctor: " in capsys.readouterr().err
    assert ["codea1", *TRAIN] not in cloud.calls


def test_failed_training_is_reported(cloud):
    cloud.script = Script(failures={"codea1 train": (1, "disk full", 1)})
    assert cloud.launch("gpu", "start", *RUN) == 1


def test_a_tpu_is_not_a_gpu(cloud, capsys):
    assert cloud.launch("gpu", "up", *RUN, "--gpus=v5e:2x2") == 2
    assert "use `python -m launch tpu`" in capsys.readouterr().err


# --- SLURM ----------------------------------------------------------------------------------------


def test_slurm_tries_the_job_then_queues_it_once(cloud):
    flags = ("--nodes=2", "--gpus=h100:4", "--sbatch-flag=--partition=gpu", "--poll=0")
    assert cloud.launch("slurm", "up", *RUN, *flags) == 0
    tried, queued = [call for call in cloud.calls if call[0] == "sbatch"]
    assert queued == [
        *("sbatch", "--parsable", "--job-name=first", "--nodes=2", "--gpus-per-node=4", "--output=runs/first.log"),
        *("--partition=gpu", "launch/slurm.sbatch", "codea1", *TRAIN),
    ]
    assert tried == ["sbatch", "--test-only", *queued[1:]]
    assert ["codea1", "plan", "1.5b/a1_h100", "train.steps=3", "--topology", "h100:8"] in cloud.calls
    cloud.job = 5
    assert cloud.launch("slurm", "start", *RUN, *flags) == 0
    assert cloud.verbs == ["sbatch"]


def test_slurm_proves_all_nodes_in_place_of_training(cloud):
    flags = ("--nodes=2", "--gpus=h100:8", "--poll=0")
    assert cloud.launch("slurm", "up", *RUN, *flags, "--selftest") == 0
    _, queued = [call for call in cloud.calls if call[0] == "sbatch"]
    assert queued[-4:] == ["selftest", "1.5b/a1_h100", "train.steps=3", "mesh.replica=2"]
    assert not any(call[:2] in (["codea1", "plan"], ["codea1", "rehearse"]) for call in cloud.calls)
    with pytest.raises(SystemExit):
        cloud.launch("slurm", "up", *RUN, *flags, "--selftest", "--eval=code --model m")


def test_a_preset_for_one_node_has_a_replica_on_each(cloud):
    assert cloud.launch("slurm", "up", *RUN, "--nodes=2", "--gpus=h100:8", "--poll=0") == 0
    _, queued = [call for call in cloud.calls if call[0] == "sbatch"]
    assert "mesh.replica=2" in queued
    assert ["codea1", "plan", "1.5b/a1_h100", "train.steps=3", "--topology", "h100:8"] in cloud.calls  # each the same


@pytest.mark.parametrize(
    ("check", "failing"), [("queue", "--test-only"), ("plan", "codea1 plan"), ("rehearsal", "codea1 rehearse")]
)
def test_slurm_gets_no_job_that_cannot_work(cloud, capsys, check, failing):
    cloud.script = Script(failures={failing: (9, "Invalid partition name specified", 1)})
    assert cloud.launch("slurm", "up", *RUN) == 2
    assert f"FAIL {check}: " in capsys.readouterr().err
    assert cloud.verbs == []


def test_slurm_steps_alone(cloud, capsys):
    cloud.job = 1
    assert cloud.launch("slurm", "stop", "first", "--gpus=h100:8") == 0
    assert cloud.calls[-1] == ["scancel", "--me", "--name=first"]
    assert cloud.launch("slurm", "logs", "first", "--gpus=h100:8", "--dry-run") == 0
    assert "runs/first.log" in capsys.readouterr().out


# --- the batch script -----------------------------------------------------------------------------


def test_the_batch_script_gives_a_process_all_gpus_of_its_node_and_a_folder_of_programs_that_all_read(tmp_path: Path):
    said = 'printf "%s\\n" "$JAX_LOCAL_DEVICE_IDS" "$JAX_COMPILATION_CACHE_DIR" "$(ulimit -Sn)" "${@: -5}" >srun.said'
    (tmp_path / "srun").write_text(f"#!/bin/bash\n{said}\n")
    (tmp_path / "srun").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_GPUS_ON_NODE": "4"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    script = ["bash", "-c", 'ulimit -Sn 256; bash "$@"', "bash", ROOT / "launch" / "slurm.sbatch"]
    script += ["/venv/bin/python", "train", "micro/a1"]
    limit = str(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    command = ["/venv/bin/python", "-m", "codea1_jax", "train", "micro/a1"]
    for more, folder in (({}, str(tmp_path / ".cache" / "jax")), ({"JAX_COMPILATION_CACHE_DIR": "/mine"}, "/mine")):
        subprocess.run(script, cwd=tmp_path, env=environment | more, check=True)
        assert (tmp_path / "srun.said").read_text().splitlines() == ["0,1,2,3", folder, limit, *command]


# --- images ---------------------------------------------------------------------------------------


def test_the_image_copies_existing_files():
    text = (ROOT / "launch" / "Dockerfile").read_text()
    copied = [word for line in text.splitlines() if line.startswith("COPY") for word in line.split()[1:-1]]
    assert copied and all((ROOT / word).exists() for word in copied)
