"""Programs of the fake cluster of tests/support/fake_slurm.py, run as PROGRAM DIRECTORY ARGUMENTS...

They know what SLURM 26 does, from its sources: srun returns the highest code of its tasks, and kills them when it gets
SIGTERM itself. `scontrol requeue` queues even a cancelled job again while that is ending, unless it is asked for
incomplete jobs, which are those that run.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

JOB = "4711"
PENDING, RUNNING, CANCELLED, COMPLETED = "PENDING", "RUNNING", "CANCELLED", "COMPLETED"
WAIT_TIME = 1.0  # a site's own setting: seconds that srun leaves the others when the first task has ended


def sbatch(directory: Path, words: list[str]) -> int:
    """Remembers where it was called, the script and its arguments."""
    script = next(index for index, word in enumerate(words) if not word.startswith("-"))
    write(directory / "submitted", "\0".join([os.getcwd(), *words[script:]]))
    write(directory / "state", PENDING)
    print(JOB)
    return 0


def squeue(directory: Path, words: list[str]) -> int:
    """Nothing is queued."""
    return 0


def scontrol(directory: Path, words: list[str]) -> int:
    """Requeues the job."""
    verb, *incomplete, job = words
    assert (verb, job) == ("requeue", JOB) and incomplete in ([], ["Incomplete"])
    if (directory / "refuses").exists():
        print("Requested operation is presently disabled for job 4711", file=sys.stderr)
        return 1
    state = (directory / "state").read_text()
    if incomplete and state != RUNNING:
        return 0
    if state == PENDING:
        print("Job is pending execution for job 4711", file=sys.stderr)
        return 1
    requeue(directory, "job")
    os.kill(os.getppid(), signal.SIGTERM)  # what is left of the job is ended: the batch script, which called this
    return 0


def srun(directory: Path, words: list[str]) -> int:
    """Runs a task for each node, and leaves their process ids in `tasks`."""
    program = next(index for index, word in enumerate(words) if not word.startswith("-"))
    options, command, count = words[:program], words[program:], os.environ["SLURM_JOB_NUM_NODES"]
    shared = {"SLURM_NTASKS": count, "SLURM_STEP_NUM_TASKS": count, "SLURM_STEP_NODELIST": "localhost"}
    tasks = [
        subprocess.Popen(command, env={**os.environ, **shared, "SLURM_PROCID": str(index), "SLURM_LOCALID": "0"})
        for index in range(int(count))
    ]

    def kill_all(*_: object) -> None:
        for task in tasks:
            task.kill()

    signal.signal(signal.SIGTERM, kill_all)
    write(directory / "tasks", " ".join(str(task.pid) for task in tasks))
    until = float("inf")
    while any(task.poll() is None for task in tasks):
        codes = [task.returncode for task in tasks if task.returncode is not None]
        if codes and "--wait=0" not in options:
            until = min(until, time.monotonic() + WAIT_TIME)
        if time.monotonic() > until or (any(codes) and "--kill-on-bad-exit=0" not in options):
            kill_all()
        time.sleep(0.02)
    return max(128 - task.returncode if task.returncode < 0 else task.returncode for task in tasks)


def requeue(directory: Path, who: str) -> None:
    """Queues the job again."""
    write(directory / "state", PENDING)
    with (directory / "requeues").open("a") as requeues:
        requeues.write(f"{who}\n")


def write(path: Path, text: str) -> None:
    """At once: others wait for the file, and read it."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text)
    part.replace(path)


PROGRAMS = {"sbatch": sbatch, "srun": srun, "scontrol": scontrol, "squeue": squeue}

if __name__ == "__main__":
    sys.exit(PROGRAMS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3:]))
