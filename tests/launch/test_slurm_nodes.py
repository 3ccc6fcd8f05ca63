"""The batch script: what it starts on the nodes, and whether the job is requeued when that has ended."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_run import ROOT, SETTINGS, steps_done
from waiting import wait_for

from codea1_jax.common.files import read_lines

SCRIPT = ROOT / "launch" / "slurm.sbatch"
# Notes how it was called and what for; runs until there is a file `release`, and exits with the code in CODE.
SRUN = """
printf '%s\\n' "$@" "$JAX_LOCAL_DEVICE_IDS" "$JAX_COMPILATION_CACHE_DIR" "$(ulimit -Sn)" >srun.called
while [[ ! -e release ]]; do sleep 0.05; done
exit "$CODE"
"""
# A process for each of two nodes, as in a step of SLURM: JAX finds the others by this environment.
TWO_NODES = """
while [[ $1 == -* ]]; do shift; done
export SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=localhost SLURM_LOCALID=0
SLURM_PROCID=0 "$@" & tasks=$!
SLURM_PROCID=1 "$@" & tasks+=" $!"
echo "$tasks" >tasks
highest=0
for task in $tasks; do
    code=0
    wait "$task" || code=$?
    highest=$((code > highest ? code : highest))
done
exit "$highest"
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts the batch script in an empty directory, with a fake srun and scontrol."""
    monkeypatch.chdir(tmp_path)

    def start(srun: str, *arguments: str, python: str = "/venv/bin/python", **environment: str):
        for name, text in {"srun": srun, "scontrol": 'echo "$@" >>requeued\nexit "${REFUSES:-0}"'}.items():
            (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
            (tmp_path / name).chmod(0o755)
        own = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        own |= {"SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_ID": "7", **environment}
        command = ["bash", "-c", 'ulimit -Sn 256; exec bash "$@"', "bash", SCRIPT, python, *arguments]
        return subprocess.Popen(command, env=own, stderr=subprocess.PIPE, text=True)

    return start


def ended(job: subprocess.Popen[str]) -> tuple[int, str, list[str]]:
    """Its exit code and errors, and what was requeued."""
    _, errors = job.communicate(timeout=300)
    requeued = Path("requeued")
    return job.returncode, errors, requeued.read_text().splitlines() if requeued.exists() else []


@pytest.mark.parametrize("folder", ["", "/mine"])
def test_a_process_has_all_gpus_of_its_node_and_a_folder_of_programs_that_all_read(start: Start, monkeypatch, folder):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    Path("release").touch()
    job = start(SRUN, "train", "micro/a1", CODE="0", **({"JAX_COMPILATION_CACHE_DIR": folder} if folder else {}))
    assert ended(job)[0] == 0
    assert Path("srun.called").read_text().splitlines() == [
        *("--kill-on-bad-exit=0", "--wait=0"),  # a node that exits does not end the one that saves
        *("/venv/bin/python", "-m", "codea1_jax.cli", "train", "micro/a1"),
        *("0,1,2,3", folder or f"{Path.cwd()}/.cache/jax", str(resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
    ]


@pytest.mark.parametrize(
    ("code", "restarts", "requeued"),
    [("130", "", True), ("143", "99", True), ("130", "100", False), *((c, "", False) for c in ("0", "1", "2", "134"))],
)
def test_a_job_that_was_stopped_is_requeued_once_unless_it_was_cancelled(start: Start, code, restarts, requeued):
    """`Incomplete`: SLURM requeues neither a job that was cancelled nor one that it has requeued itself."""
    Path("release").touch()
    done, errors, calls = ended(start(SRUN, CODE=code, **({"SLURM_RESTART_COUNT": restarts} if restarts else {})))
    assert (done, calls) == (int(code), ["requeue Incomplete 7"] if requeued else [])
    assert ("stopped after 100 restarts; not requeued" in errors) == (restarts == "100")


def test_a_job_that_slurm_does_not_requeue_reports_it(start: Start):
    Path("release").touch()
    assert "SLURM did not requeue it" in ended(start(SRUN, CODE="130", REFUSES="1"))[1]


def test_a_signal_to_the_script_neither_ends_it_nor_reaches_srun(start: Start):
    """As in a preemption with a grace time, in which the processes save."""
    assert "\n#SBATCH --signal=TERM@300\n" in SCRIPT.read_text()  # to the processes, not to the script
    job = start(SRUN, CODE="130")
    wait_for(Path("srun.called").exists)
    job.send_signal(signal.SIGTERM)
    Path("release").touch()
    assert ended(job)[::2] == (130, ["requeue Incomplete 7"])


@pytest.mark.long
def test_real_training_on_two_nodes_is_stopped_and_resumes(start: Start):
    environment = {
        **{"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "PYTHONPATH": str(ROOT)},
        "SLURM_GPUS_ON_NODE": "1",
    }
    run = Path("runs/first")
    settings = (*SETTINGS, "train.steps=3", "checkpoint.every=1", "eval.every=0", f"run.directory={run}", "--resume")

    def started() -> subprocess.Popen[str]:
        return start(TWO_NODES, "train", "micro/a1_paper", *settings, python=sys.executable, **environment)

    job = started()
    wait_for(lambda: steps_done(run) >= 1, 300)
    for task in Path("tasks").read_text().split():
        os.kill(int(task), signal.SIGTERM)
    code, errors, requeued = ended(job)
    assert (code, requeued) == (130, ["requeue Incomplete 7"]), errors
    code, errors, _ = ended(started())
    assert code == 0, errors
    assert [line["step"] for line in read_lines(run / "metrics.jsonl") if line["kind"] == "train"] == [1, 2, 3]
