"""A run on several hosts, all of them on this machine: processes that share out the run's devices, all virtual."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from codea1_jax.common.files import read_lines

MOST_PROCESSES = 4
STOP_SECONDS = 300.0  # that the launchers leave between SIGTERM and the end
POLL_SECONDS = 0.1
# By which a process would take itself for one of a cluster's, or see accelerators that are here.
FOREIGN = ("SLURM_STEP_NUM_TASKS", "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID", "CUDA_VISIBLE_DEVICES")


class StageFailed(Exception):
    """A stage did not go as it must; the message is one line that names why, and the fix where there is one."""


@dataclass(frozen=True)
class Pod:
    """`processes` processes with `devices` virtual devices in all; their logs go to `logs`."""

    processes: int
    devices: int
    logs: Path
    compiled: Path  # the folder of compiled programs that they share, unless the user has named one

    @property
    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        return own | {
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_CPU_DEVICES": str(self.devices // self.processes),  # whatever XLA_FLAGS say
            "JAX_COMPILATION_CACHE_DIR": own.get("JAX_COMPILATION_CACHE_DIR", str(self.compiled)),
            "PYTHONFAULTHANDLER": "1",
        }

    @contextmanager
    def running(self, name: str, arguments: Sequence[str], seconds: float) -> "Iterator[Running]":
        """The processes of a stage, which has that long. They are gone at the end, and do not outlive this one."""
        self.logs.mkdir(parents=True, exist_ok=True)
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        command = [sys.executable, "-m", "codea1_jax.cli._child", cores, "-m", "codea1_jax.cli", *arguments]
        hosts = (f"hosts.coordinator=127.0.0.1:{_free_port()}", f"hosts.count={self.processes}")
        logs = [self.logs / f"{name}-{index}.log" for index in range(self.processes)]
        processes = []
        for index, log in enumerate(logs):
            with log.open("wb") as file:
                words = [*command, *hosts, f"hosts.index={index}"] if self.processes > 1 else command
                processes.append(subprocess.Popen(words, env=self.environment, stdout=file, stderr=file))
        running = Running(processes, logs, time.monotonic() + seconds)
        try:
            yield running
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()


@dataclass
class Running:
    processes: list[subprocess.Popen[bytes]]
    logs: list[Path]
    deadline: float

    def wait_for(self, happened: Callable[[], bool]) -> None:
        """Raises StageFailed if a process ends before, or the time is over."""
        while not happened():
            if any(process.poll() is not None for process in self.processes):
                if happened():
                    return
                raise StageFailed(self._why_ended())
            self._look()

    def finish(self, code: int) -> None:
        """Waits for the end of all. Raises StageFailed if one ends with another exit code, or the time is over."""
        while any(process.poll() is None for process in self.processes):
            self._look()
        if any(process.returncode != code for process in self.processes):
            raise StageFailed(self._why_ended())

    def stop(self, code: int) -> float:
        """Sends every process SIGTERM and waits for them: the seconds they took. Raises StageFailed as `finish`."""
        began = time.monotonic()
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        self.finish(code)
        took = time.monotonic() - began
        if took > STOP_SECONDS:
            raise StageFailed(
                f"saved and stopped {took:.0f} s after SIGTERM; the launchers leave it "
                f"{STOP_SECONDS:.0f} s: if this machine was busy, rehearse again; otherwise set checkpoint.every "
                "lower, so that less is lost"
            )
        return took

    def _look(self) -> None:
        time.sleep(POLL_SECONDS)
        if time.monotonic() > self.deadline:
            for process in self.processes:
                process.send_signal(signal.SIGABRT)  # on which Python writes where each of its threads is
            raise StageFailed(f"not done in time; where each process was: {self.logs[0].parent}")

    def _why_ended(self) -> str:
        for process in self.processes:  # the others of one that fails notice it, and end soon
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        if any(process.returncode == -signal.SIGKILL for process in self.processes):
            return "killed, as Linux does when memory runs out; rehearse on a machine with more"
        texts = [log.read_text(errors="replace") for log in self.logs]
        said = [line for text in texts for line in text.splitlines() if line.startswith("codea1: ")]
        own = [line for line in said if not line.startswith("codea1: lost another host")]
        if own or said:
            return (own or said)[-1].removeprefix("codea1: ")
        codes = ", ".join(str(process.returncode) for process in self.processes)
        return f"ended with exit codes {codes}; see {self.logs[0].parent}"


def steps_logged(run: Path) -> int:
    path = run / "metrics.jsonl"
    lines = read_lines(path) if path.exists() else []
    return max((int(line["step"]) for line in lines if line["kind"] == "train"), default=0)


def _free_port() -> int:
    # Below those that the system gives to connections, one of which could take it meanwhile.
    for port in random.SystemRandom().sample(range(10_000, 30_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise StageFailed("no free port between 10000 and 30000")
