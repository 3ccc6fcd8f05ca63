"""A pytest plugin: a test that dies or is stuck ends the run and is named, and so ends every process it started.

Where tests run, a timer of faulthandler's covers the collection of each file, each fixture's setup, and each test's
call and teardown. When it runs out, it prints the stack of every thread and ends the process. It is a thread of C, so
it also ends code that holds the interpreter's lock. On a machine that others keep busy, where each process gets its
share of a core, the time is longer by as much, up to threefold.

Where xdist distributes tests, the death of a worker ends the run. xdist alone would first run what the other workers
have in their queues. With restarts it may wait for ever: under `--dist loadfile` it can give a replacement a file that
the dead worker had finished, and a worker without a test to run never reports.
"""

import contextlib
import faulthandler
import os
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

LONG_SECONDS = 3600.0  # for a phase of a test that is marked `long`
RUN_ID = "CODEA1_TEST_RUN"  # the environment variable by which a run finds the processes it started


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("stuck_seconds", "a fixture, a call, a teardown or a collection that takes longer ends the run")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    distributes = not is_worker and config.getoption("dist", "no") != "no"
    if not distributes:
        config.pluginmanager.register(_Timer(float(config.getini("stuck_seconds"))))
    if not is_worker:
        config.pluginmanager.register(_Run())


class _Timer:
    """Ends this process when a phase takes too long. Between tests, where a worker may wait for others, it is off."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stderr = os.dup(sys.__stderr__.fileno())  # pytest will replace the one that a test writes to

        self._limit = seconds  # of what is running now

    def _start(self) -> None:
        crowding = os.getloadavg()[0] / (os.cpu_count() or 1)  # processes that want a core, for each there is
        faulthandler.dump_traceback_later(self._limit * min(max(crowding, 1.0), 3.0), file=self._stderr, exit=True)

    def _start_for(self, item: pytest.Item) -> None:
        self._limit = LONG_SECONDS if item.get_closest_marker("long") else self._seconds
        self._start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectstart(self) -> None:
        self._start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self) -> None:
        faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._start_for(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self) -> None:
        self._start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._start_for(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        self._start_for(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._limit = self._seconds
        self._start()

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()


class _Run:
    """The whole run, in the process that started it."""

    def __init__(self) -> None:
        self._id = os.environ[RUN_ID] = uuid.uuid4().hex
        self._lost_workers: list[str] = []
        self._killed: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error:
            self._lost_workers.append(node.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, report: pytest.TestReport, sched: Any) -> None:
        sched.config.hook.pytest_runtest_logreport(report=report)
        pytest.exit(report.longrepr, returncode=pytest.ExitCode.TESTS_FAILED)

    @pytest.hookimpl(trylast=True)  # xdist has ended its workers
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._lost_workers and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._killed = [_kill(process) for process in _processes_with(f"{RUN_ID}={self._id}".encode())]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for title, lines in (("workers that died", self._lost_workers), ("left behind and killed", self._killed)):
            if lines:
                terminalreporter.section(title)
                terminalreporter.write_line("\n".join(lines))


def _processes_with(variable: bytes) -> list[Path]:
    """The /proc directories of the processes that were started with an environment variable (on Linux)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
            if variable in (process / "environ").read_bytes().split(b"\0"):
                found.append(process)
    return found


def _kill(process: Path) -> str:
    """Kills a process and returns its command line."""
    with contextlib.suppress(OSError):
        command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        os.kill(int(process.name), signal.SIGKILL)
        return command
    return "(ended by itself)"
