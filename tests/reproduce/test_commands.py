"""Commands that depend on one another: order, resuming, failing, and leaving nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import wait_for

from codea1_jax.reproduce import commands
from codea1_jax.reproduce.commands import Command, in_order, run_all

# Stands in for the command line: writes when it ran, then its last file; `slow` waits to be told to stop.
STAND_IN = """
import json, os, pathlib, signal, sys, time
cores, directory, kind = sys.argv[1:4]
folder = pathlib.Path(directory)
folder.mkdir(exist_ok=True)
begun = time.time()
(folder / "arguments").write_text(" ".join(sys.argv[4:]))
(folder / "pid").write_text(str(os.getpid()))
def stop(*_):
    (folder / "stopped").touch()
    sys.exit(130)
signal.signal(signal.SIGTERM, stop)
if kind == "fails":
    print("a reason"); sys.exit(2)
time.sleep(60 if kind == "slow" else 0.1)
(folder / "done.json").write_text(json.dumps([begun, time.time()]))
"""


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)

    def start(command: list[str], **rest):
        assert command[:3] == [sys.executable, "-m", "codea1_jax.cli._child"]
        return subprocess.Popen([sys.executable, str(script), *command[3:]], **rest)

    double = SimpleNamespace(Popen=start, STDOUT=subprocess.STDOUT, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(commands, "subprocess", double)


def command(folder: Path, name: str, kind: str = "quick", *needs: Command) -> Command:
    directory = folder / "lab" / name
    return Command(directory, ("python", str(directory), kind), "done.json", "training", ("--resume",), needs)


def span(one: Command) -> list[float]:
    return json.loads((one.directory / one.done).read_text())


def test_what_is_needed_comes_first_and_everything_once(tmp_path):
    base = command(tmp_path, "base")
    left, right = command(tmp_path, "left", "quick", base), command(tmp_path, "right", "quick", base)
    last = command(tmp_path, "last", "quick", left, right)
    assert in_order([last, base]) == (base, left, right, last)
    shown: list[tuple[int, int]] = []
    run_all([last], 2, lambda done, running: shown.append((done, len(running))))
    assert span(base)[1] < min(span(left)[0], span(right)[0])
    assert max(span(left)[1], span(right)[1]) < span(last)[0]
    assert shown[-1] == (4, 0) and max(running for _, running in shown) == 2


def test_what_is_done_is_not_done_again_and_what_was_begun_is_resumed(tmp_path):
    finished, begun, new = (command(tmp_path, name) for name in ("finished", "begun", "new"))
    finished.directory.mkdir(parents=True)
    (finished.directory / "done.json").write_text("[0, 0]")
    begun.directory.mkdir(parents=True)
    run_all([finished, begun, new], 1, lambda *_: None)
    assert span(finished) == [0, 0]
    assert (begun.directory / "arguments").read_text() == "--resume"
    assert (new.directory / "arguments").read_text() == ""


def test_a_failure_names_its_command_and_its_reason_and_stops_the_others(tmp_path):
    slow, failing = command(tmp_path, "slow", "slow"), command(tmp_path, "failing", "fails")
    never = command(tmp_path, "never", "quick", failing)
    with pytest.raises(
        ChildProcessError, match=r"failing ended with exit code 2: a reason \(all of it: .*failing.log\)"
    ):
        run_all([slow, failing, never], 2, lambda *_: None)
    assert not never.directory.exists()
    assert not slow.finished


def test_ctrl_c_lets_commands_save_and_waits_for_them(tmp_path):
    slow = command(tmp_path, "slow", "slow")

    def press(*_) -> None:
        if (slow.directory / "pid").exists():
            time.sleep(0.2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all([slow], 1, press)
    assert (slow.directory / "stopped").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((slow.directory / "pid").read_text()), 0)


def test_a_command_waits_until_the_one_that_an_earlier_process_began_has_ended(tmp_path):
    """As after SIGKILL: the parent is gone, and its command still saves."""
    one = command(tmp_path, "one")
    one.directory.parent.mkdir()
    with one.log.open("ab") as log:
        saving = "import fcntl, sys, time; fcntl.flock(1, fcntl.LOCK_EX); print('has it', file=sys.stderr, flush=True)"
        earlier = subprocess.Popen(
            [sys.executable, "-c", f"{saving}; sys.stdin.read(); time.sleep(0.3); print(time.time(), flush=True)"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.PIPE,
        )
    assert earlier.stdin is not None and earlier.stderr is not None
    assert earlier.stderr.readline() == b"has it\n"
    earlier.stdin.close()
    run_all([one], 1, lambda *_: None)
    assert earlier.wait() == 0
    assert float(one.log.read_text()) < span(one)[0]


def test_a_command_does_not_outlive_the_process_that_started_it(tmp_path):
    """The real child: `codea1 report --follow` would run forever if its parent were not killed."""
    (tmp_path / "config.yaml").touch()
    (tmp_path / "metrics.jsonl").touch()
    report = ("-m", "codea1_jax.cli", "report", "--follow", str(tmp_path))
    child = [sys.executable, "-m", "codea1_jax.cli._child", "0", *report]
    starts = f"import subprocess; p = subprocess.Popen({child!r}); print(p.pid, flush=True); p.wait()"
    parent = subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    wait_for(lambda: parent.poll() is not None or (tmp_path / "report.html").exists())
    assert parent.poll() is None, "the command did not start"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    state = Path(f"/proc/{pid}/stat")
    wait_for(lambda: not state.exists() or state.read_text().split()[2] == "Z")
