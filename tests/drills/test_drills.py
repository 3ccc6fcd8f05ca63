"""Faults of hosts, storage and judges, planted in a run of several processes: `make drills` ends with their table.

In each drill a clear line must name the fault, within the time stated here. The run must continue by itself or by
`--resume`, repeat no more than the step in which the fault occurred, and end in the same state, bit for bit, as a run
without the fault.
"""

import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from gcs_emulator import running_emulator
from tiny_run import ROOT, assert_same_end, start_codea1, steps_done, train_arguments, without_times
from workers import free_port

from codea1_jax.doctor.rehearsal.pod import Pod, Running

pytestmark = pytest.mark.long

STEPS = 4
SETTINGS = (f"train.steps={STEPS}", "checkpoint.every=1", "eval.every=0")
DEATH_SECONDS = 60.0  # in which the others of a host that has died must have reported it and ended
Record = Callable[[str, object], None]


@dataclass
class Drill:
    """A run in a directory of its own, whose first steps are done, and what is seen once `fault` has been planted."""

    run: Path
    running: Running
    planted: float = 0.0
    message: str = ""
    message_after: float = 0.0
    over_after: float = 0.0

    def plant(self, fault: Callable[[], object]) -> None:
        """Waits for the first saved step, and lets something go wrong in the one after."""
        self.running.wait_for(lambda: steps_done(self.run) >= 1 and (self.run / "checkpoints" / "1").exists())
        self.planted = time.monotonic()
        fault()

    @property
    def after(self) -> float:
        """Seconds since the fault."""
        return time.monotonic() - self.planted

    def wait_for_line(self, pattern: str, *, of: int, seconds: float) -> None:
        """Waits until a process says it on standard error."""
        log = self.running.logs[of]
        while (found := re.search(pattern, log.read_text(errors="replace"))) is None:
            assert self.after < seconds, f"nothing like {pattern!r} in {seconds} s:\n{log.read_text()}"
            time.sleep(0.05)
        self.message, self.message_after = found[0], self.after

    def wait_for_end(self, *processes: int, seconds: float) -> list[int]:
        """The exit codes of these processes."""
        codes = []
        for index in processes:
            try:
                codes.append(self.running.processes[index].wait(max(seconds - self.after, 0.1)))
            except subprocess.TimeoutExpired:
                pytest.fail(f"process {index} still runs after {self.after:.0f} s")
        self.over_after = self.after
        return codes


def pod(directory: Path, processes: int) -> Pod:
    return Pod(processes, processes, directory / "logs", ROOT / ".cache" / "jax")


@contextmanager
def drilled(directory: Path, *more: str, processes: int = 2) -> Iterator[Drill]:
    """A run at work in `directory`."""
    run = directory / "run"
    with pod(directory, processes).running("first", train_arguments(run, *SETTINGS, *more), 300.0) as running:
        yield Drill(run, running)


def resume(directory: Path, processes: int) -> float:
    """Continues a run to its end; the seconds until it had done a step more than before."""
    run, began = directory / "run", time.monotonic()
    before = steps_done(run)
    arguments = train_arguments(run, *SETTINGS, "--resume")
    with pod(directory, processes).running("resumed", arguments, 300.0) as running:
        running.wait_for(lambda: steps_done(run) > before)
        took = time.monotonic() - began
        running.finish(0)
    return took


_whole: dict[int, Path] = {}


@pytest.fixture
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Runs without faults, by their number of processes."""

    def run(processes: int) -> Path:
        if processes not in _whole:
            directory = tmp_path_factory.mktemp("whole")
            with drilled(directory, processes=processes) as drill:
                drill.running.finish(0)
            _whole[processes] = drill.run
        return _whole[processes]

    return run


def assert_ends_like(whole: Path, run: Path, checkpoints: Path | None = None) -> None:
    """The same state and the same figures, bit for bit."""
    assert_same_end(checkpoints or run / "checkpoints", whole / "checkpoints", step=STEPS)
    assert without_times(run) == without_times(whole)


def last_saved(run: Path) -> int:
    return max(int(path.name) for path in (run / "checkpoints").iterdir() if path.name.isdigit())


def check_and_record(name: str, drill: Drill, whole: Path, record: Record, processes: int = 2) -> None:
    """Resumes a run that has ended; it lost a finished step at most, and ends like the whole one."""
    lost = steps_done(drill.run) - last_saved(drill.run)
    assert lost <= 1
    continued = resume(drill.run.parent, processes)
    assert_ends_like(whole, drill.run)
    times = (drill.message_after, drill.over_after, continued)
    record("drill", (name, processes, *(f"{seconds:.0f} s" for seconds in times), lost, drill.message))


def record_survived(name: str, drill: Drill, whole: Path, record: Record) -> None:
    """Waits for the end of a run that went on by itself, and compares it with the whole one."""
    drill.running.finish(0)
    assert_ends_like(whole, drill.run)
    times = (f"{drill.message_after:.0f} s", f"{drill.over_after:.0f} s", "by itself")
    record("drill", (name, len(drill.running.processes), *times, 0, drill.message))


# --- hosts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [2, 4])
def test_the_death_of_a_worker_ends_the_others_and_costs_a_step(processes, whole, tmp_path, record_property):
    with drilled(tmp_path, processes=processes) as drill:
        drill.plant(drill.running.processes[1].kill)
        others = [index for index in range(processes) if index != 1]
        drill.wait_for_line(r"codea1: (host 1 of|lost another host).*--resume.*", of=0, seconds=DEATH_SECONDS)
        assert drill.wait_for_end(*others, seconds=DEATH_SECONDS) == [1] * len(others)
    check_and_record("a worker dies", drill, whole(processes), record_property, processes=processes)


def test_the_death_of_the_coordinator_is_reported_by_the_others(whole, tmp_path, record_property):
    with drilled(tmp_path) as drill:
        drill.plant(drill.running.processes[0].kill)
        reported = r"codea1: (host 0 of|lost another host|host 1 of 2 has died, or was ended).*--resume.*"
        drill.wait_for_line(reported, of=1, seconds=DEATH_SECONDS)
        assert drill.wait_for_end(1, seconds=DEATH_SECONDS)[0] in (1, -signal.SIGABRT)
    check_and_record("the coordinator dies", drill, whole(2), record_property)


def test_a_host_that_hangs_is_taken_for_dead(whole, tmp_path, record_property):
    with drilled(tmp_path) as drill:
        drill.plant(lambda: drill.running.processes[1].send_signal(signal.SIGSTOP))
        drill.wait_for_line(r"codea1: (host 1 of|lost another host).*--resume.*", of=0, seconds=2 * DEATH_SECONDS)
        assert drill.wait_for_end(0, seconds=2 * DEATH_SECONDS) == [1]
    check_and_record("a host hangs", drill, whole(2), record_property)


def test_a_host_that_is_slow_is_reported_and_waited_for(whole, tmp_path, record_property):
    """Less than what makes it a dead one."""
    with drilled(tmp_path, "hosts.stall_seconds=10.0") as drill:
        slow = drill.running.processes[1]
        drill.plant(lambda: slow.send_signal(signal.SIGSTOP))
        drill.wait_for_line(r"host 0 of 2 stalled: nothing for 1\d s since [^;]*", of=0, seconds=18)
        slow.send_signal(signal.SIGCONT)
        reported = drill.message, drill.message_after
        drill.wait_for_line(r"host 0 of 2 continues: .*", of=0, seconds=40)
        (drill.message, drill.message_after), drill.over_after = reported, drill.message_after
        record_survived("a host is slow", drill, whole(2), record_property)


# --- storage ------------------------------------------------------------------------------------------


def test_a_full_disk_ends_the_run_and_what_was_saved_is_good(whole, tmp_path, record_property):
    def fill() -> None:
        for process in drill.running.processes:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    with drilled(tmp_path) as drill:
        drill.plant(fill)
        drill.wait_for_line(r"codea1: (?!host|lost).*", of=0, seconds=DEATH_SECONDS)
        codes = drill.wait_for_end(0, 1, seconds=2 * DEATH_SECONDS)
        assert codes[0] == 1 and codes[1] in (1, -signal.SIGABRT)  # JAX aborts the other when the first one has left
    check_and_record("the disk is full", drill, whole(2), record_property)


def test_a_bucket_that_refuses_everything_for_a_minute_is_waited_for(whole, tmp_path, monkeypatch, record_property):
    with running_emulator() as emulator:
        for name, value in emulator.environment.items():
            monkeypatch.setenv(name, value)
        with drilled(tmp_path, "checkpoint.directory=gs://bucket/runs/tiny") as drill:
            drill.running.wait_for(lambda: "bucket/runs/tiny/1/commit_success.txt" in emulator.names())
            drill.planted = time.monotonic()
            emulator.fault = lambda: "503" if drill.after < 60 else None
            drill.over_after = 60.0
            drill.running.finish(0)
        assert emulator.faults > 0
        kept = tmp_path / "bucket"
        for (_, name), stored in emulator.objects.items():
            (kept / name).parent.mkdir(parents=True, exist_ok=True)
            (kept / name).write_bytes(stored.data)
    assert_ends_like(whole(2), drill.run, kept / "runs" / "tiny")
    record_property("drill", ("the bucket refuses", 2, "-", "60 s", "by itself", 0, "none"))


# --- the judge ----------------------------------------------------------------------------------------


@contextmanager
def judging(port: int) -> Iterator[subprocess.Popen[str]]:
    """A judge's service, ready."""
    process = start_codea1("sandbox", "serve", "--port", str(port), "--workers=1")
    try:
        assert process.stderr is not None
        assert "nsjail workers" in process.stderr.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_judge_that_is_started_again_costs_time_and_nothing_else(whole, tmp_path, record_property):
    port = free_port()
    judge = ("sandbox.backend=http", f"sandbox.address=http://127.0.0.1:{port}")
    with judging(port) as first, drilled(tmp_path, *judge) as drill:
        drill.plant(first.kill)
        drill.wait_for_line(r"no judge answers.*", of=0, seconds=DEATH_SECONDS)
        time.sleep(15)
        with judging(port):
            drill.over_after = drill.after
            record_survived("the judge restarts", drill, whole(2), record_property)
