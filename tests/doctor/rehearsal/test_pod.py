"""Processes of a rehearsal: one that ends, is stuck or stops late fails its stage with a line that names why."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codea1_jax.doctor.rehearsal import pod
from codea1_jax.doctor.rehearsal.pod import Pod, Running, StageFailed

STOPS_LATE = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: time.sleep(1) or exit(130))
print("up", flush=True)
time.sleep(60)
"""


def started(tmp_path: Path, *programs: str, seconds: float = 30) -> Running:
    logs = [tmp_path / f"{index}.log" for index in range(len(programs))]
    processes = []
    for program, log in zip(programs, logs, strict=True):
        with log.open("wb") as file:
            command = [sys.executable, "-X", "faulthandler", "-c", program]
            processes.append(subprocess.Popen(command, stdout=file, stderr=file))
    return Running(processes, logs, time.monotonic() + seconds)


def test_a_process_that_ends_before_its_time_is_reported_in_its_own_words(tmp_path):
    reason = "data.source: data/kodcode does not exist; create it: codea1 data prepare kodcode"
    died = f"import sys; sys.exit('codea1: {reason}')"
    other = "import sys; sys.exit('codea1: lost another host (Gloo)')"
    with pytest.raises(StageFailed, match=f"^{re.escape(reason)}$"):
        started(tmp_path, died, other).wait_for(lambda: False)


def test_a_process_that_says_nothing_is_reported_by_its_exit_code_and_its_log(tmp_path):
    with pytest.raises(StageFailed, match=rf"exit codes 7; see {tmp_path}"):
        started(tmp_path, "exit(7)").finish(0)


def test_a_process_that_is_killed_has_probably_used_up_the_memory(tmp_path):
    running = started(tmp_path, "import os; os.kill(os.getpid(), 9)", "exit(0)")
    with pytest.raises(StageFailed, match=r"^killed, as Linux does .*; rehearse on a machine with more$"):
        running.finish(0)


def test_a_stuck_process_is_ended_and_says_where_it_was(tmp_path):
    running = started(tmp_path, "import time\ndef waiting():\n    time.sleep(60)\nwaiting()", seconds=2)
    with pytest.raises(StageFailed, match="not done in time"):
        running.wait_for(lambda: False)
    running.processes[0].wait(10)
    assert "in waiting" in running.logs[0].read_text()


def test_a_run_that_stops_too_late_for_a_cloud_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(pod, "STOP_SECONDS", 0.5)
    running = started(tmp_path, STOPS_LATE)
    running.wait_for(lambda: "up" in running.logs[0].read_text())
    with pytest.raises(StageFailed, match=r"saved and stopped 1 s after SIGTERM; .* set checkpoint.every lower"):
        running.stop(130)


def test_devices_are_shared_out_and_no_cluster_or_accelerator_is_seen(tmp_path, monkeypatch):
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "a,b")
    environment = Pod(4, 16, tmp_path, tmp_path).environment
    assert environment["JAX_NUM_CPU_DEVICES"] == "4"
    assert environment["JAX_PLATFORMS"] == "cpu" and "TPU_WORKER_HOSTNAMES" not in environment
