"""Runs of tiny projects in which a test dies or is stuck: each run ends and names the test."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SECONDS = 4  # until a test is stuck: more than a busy machine needs to collect a file of three lines
IMPORTS = "import collections, itertools, os, signal, subprocess, sys, time\nimport pytest\n"
OTHERS = """
import pytest, time
@pytest.mark.long
@pytest.mark.parametrize("index", range(900))
def test_other(index):
    time.sleep(1)
"""
HOLDS_A_LOCK = "import fcntl, time; fcntl.flock(open('lock', 'w'), fcntl.LOCK_EX); print(flush=True); time.sleep(1000)"


@dataclass(frozen=True)
class Case:
    """What `test_it.py` contains after its imports, and what its run must print.

    workers: of xdist; one of them is busy with another file for 900 seconds. 0: without xdist.
    """

    content: str
    printed: str
    workers: int = 0


CASES = {
    "killed": Case(
        "def test_it():\n    os.kill(os.getpid(), signal.SIGKILL)",
        "crashed while running 'test_it.py::test_it'",
        workers=2,
    ),
    "killed in its import": Case("os.kill(os.getpid(), signal.SIGKILL)", "workers that died", workers=2),
    "waiting for a process": Case(
        f"""
def test_it():
    with subprocess.Popen([sys.executable, "-c", "{HOLDS_A_LOCK}"], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        open("is_locked", "w")""",
        "crashed while running 'test_it.py::test_it'",
        workers=2,
    ),
    "stuck in Python": Case("def test_it():\n    time.sleep(1000)", "line 4 in test_it"),
    "stuck in C with the interpreter's lock": Case(
        "def test_it():\n    collections.deque(itertools.repeat(0), maxlen=0)", "line 4 in test_it"
    ),
    "stuck in its fixture": Case(
        "@pytest.fixture\ndef fixture():\n    time.sleep(1000)\ndef test_it(fixture):\n    pass", "line 5 in fixture"
    ),
    "failed, then stuck in its fixture": Case(
        "@pytest.fixture\ndef fixture():\n    yield\n    time.sleep(1000)\ndef test_it(fixture):\n    assert False",
        "line 6 in fixture",
    ),
    "stuck in its import": Case("time.sleep(1000)", 'test_it.py", line 3 in <module>'),
}


def start(folder: Path, case: Case) -> subprocess.Popen[bytes]:
    """A run of the case, which prints to the file `printed`."""
    (folder / "test_it.py").write_text(f"{IMPORTS}{case.content}\n")
    settings = [f"-ostuck_seconds={SECONDS}", "-pwatchdog", "-c/dev/null", "--rootdir=."]
    if case.workers:
        (folder / "test_other.py").write_text(OTHERS)
        settings += ["-pxdist", f"-n{case.workers}", "--dist=loadfile", "--max-worker-restart=0"]
    command = [sys.executable, "-m", "pytest", *settings, "."]
    environment = os.environ | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(Path(__file__).parent / "support"),
    }
    with (folder / "printed").open("w") as printed:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=printed, stderr=printed)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, subprocess.Popen[bytes]]]]:
    """The folders and processes of all cases; the runs share the time that they wait."""
    folders = {name: tmp_path_factory.mktemp("project") for name in CASES}
    started = {name: (folder, start(folder, CASES[name])) for name, folder in folders.items()}
    yield started
    for _, process in started.values():
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", CASES)
def test_a_run_ends_and_names_the_test_that_is(name, runs):
    folder, process = runs[name]
    assert process.wait() == 1
    assert CASES[name].printed in (folder / "printed").read_text()


def test_a_process_that_a_stuck_test_waited_for_ends_with_the_run(runs):
    folder, process = runs["waiting for a process"]
    process.wait()
    assert (folder / "is_locked").exists()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits until the process has ended


def test_this_run_is_watched_in_the_same_way(pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin("watchdog")
    assert pytestconfig.getoption("maxworkerrestart") == "0"
    assert float(pytestconfig.getini("stuck_seconds")) < 120
