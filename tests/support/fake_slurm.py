"""A cluster that is not there: its programs on PATH, and one job, whose nodes are processes here.

Signals go where SLURM 26 sends them, as its sources tell: a warning before the time limit to the tasks alone, or with
B: to the batch script alone; a preemption and a cancellation to both, but not to srun.
"""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import slurm_programs
from fake_worker import wait_for
from slurm_programs import CANCELLED, COMPLETED, JOB, PENDING, RUNNING, requeue, write

LIMIT = 300.0  # seconds: whatever takes longer hangs


class Slurm:
    """The controller. restarts: how often the job has been queued again before."""

    def __init__(self, directory: Path, nodes: int = 2, restarts: int = 0) -> None:
        self.directory, self.nodes, self.restarts = directory, nodes, restarts
        self.bin = directory / "bin"
        self._batch: subprocess.Popen[bytes] | None = None
        self.bin.mkdir(parents=True)
        for name in slurm_programs.PROGRAMS:
            program = self.bin / name
            program.write_text(
                f'#!/bin/bash\nexec {sys.executable} {slurm_programs.__file__} {name} {directory} "$@"\n'
            )
            program.chmod(0o755)

    @property
    def state(self) -> str:
        """Of the job."""
        return (self.directory / "state").read_text()

    @property
    def requeues(self) -> list[str]:
        """Who queued the job again, each time: the job itself, or SLURM."""
        return _read(self.directory / "requeues").split()

    @property
    def log(self) -> str:
        """What the job printed, in all its starts."""
        return _read(self.directory / "log")

    def start(self) -> None:
        """Runs the batch script of the job, which must be waiting. Returns when the tasks run."""
        assert self.state == PENDING
        directory, *words = _read(self.directory / "submitted").split("\0")
        write(self.directory / "state", RUNNING)
        (self.directory / "tasks").unlink(missing_ok=True)
        environment = {"SLURM_JOB_ID": JOB, "SLURM_JOB_NUM_NODES": str(self.nodes), "SLURM_GPUS_ON_NODE": "1"}
        if self.restarts:
            environment["SLURM_RESTART_COUNT"] = str(self.restarts)
        with (self.directory / "log").open("ab") as log:
            self._batch = subprocess.Popen(
                ["bash", *words],
                cwd=directory,
                env={**os.environ, **environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for((self.directory / "tasks").exists, LIMIT)

    def end(self) -> int:
        """Waits until the batch script and the tasks have ended. Returns the script's code."""
        assert self._batch is not None
        code = self._batch.wait(LIMIT)
        wait_for(lambda: not any(map(_is_alive, self._tasks)), LIMIT)
        if self.state == PENDING:
            self.restarts += 1
        elif self.state == RUNNING:
            write(self.directory / "state", COMPLETED)
        return code

    def kill(self) -> None:
        """Leaves nothing behind."""
        if self._batch is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._batch.pid, signal.SIGKILL)
            self._batch.wait()

    # --- why a job stops --------------------------------------------------------------------------------

    def warn(self) -> None:
        """The time is nearly up: the signal that the script asks for is sent, and to whom it asks for."""
        assert self._batch is not None
        script = Path(_read(self.directory / "submitted").split("\0")[1]).read_text()
        wanted = re.search(r"^#SBATCH --signal=(B:)?(\w+)@\d+$", script, re.MULTILINE)
        assert wanted is not None
        self._signal(signal.Signals[f"SIG{wanted[2]}"], [self._batch.pid] if wanted[1] else self._tasks)

    def preempt_in_grace(self) -> None:
        """The job is told; what becomes of it is decided when the grace time has passed."""
        self._tell_all()

    def preempt(self) -> None:
        """SLURM queues the job again itself, and ends what runs."""
        requeue(self.directory, "slurm")
        self._tell_all()

    def cancel(self) -> None:
        """As scancel does it."""
        write(self.directory / "state", CANCELLED)
        self._tell_all()

    def _tell_all(self) -> None:
        assert self._batch is not None
        self._signal(signal.SIGTERM, [self._batch.pid, *self._tasks])

    def _signal(self, number: int, processes: list[int]) -> None:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    @property
    def _tasks(self) -> list[int]:
        return [int(word) for word in _read(self.directory / "tasks").split()]


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
