"""What one program leaves, no later one finds; what one program holds, no other and nobody else of the host meets."""

import os
import struct
import time
from pathlib import Path

import pytest
import yaml

from sandbox import Job, Limits, SandboxPool
from sandbox.host.protocol import Report

PROGRAMS = yaml.safe_load(Path(__file__).with_name("whispers.yaml").read_text())
LEFT, HELD, SEARCH = PROGRAMS["LEFT"], PROGRAMS["HELD"], PROGRAMS["SEARCH"]


def program(statements: str, expression: str) -> str:
    attempt = f"try: {statements}\nexcept (OSError, AttributeError, ValueError): pass\n"
    first = PROGRAMS["START"] + PROGRAMS["LOOKS"]
    return f"{first}def leave():\n{indented(attempt)}\ndef look():\n    return {expression}\n"


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("name", LEFT)
def test_nothing_that_a_program_leaves_is_found_by_the_next(jail: SandboxPool, name: str):
    text = program(*LEFT[name])

    def looks() -> set:
        return {e.outcomes[0] for e in jail.execute([Job(text, ("look()",))] * 4)}

    before = looks()
    assert len(before) == 1, before
    jail.execute([Job(text, ("leave()",))] * 4)
    assert looks() == before
    assert jail.restarts == 0


SHARED = "/usr/bin/env"  # a file of the host that every jail sees


def locks() -> int:
    """How many locks and leases anybody on this host holds on what the jails share with it, or on the lease's file."""
    shared = {f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}" for info in map(os.stat, ON)}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sum(fields[1] == "LEASE" or fields[5] in shared for fields in lines if fields[1] != "->")


ON = (SHARED, os.devnull)


@pytest.mark.parametrize("name", HELD)
def test_a_program_holds_no_lock_that_anybody_else_would_meet(jail: SandboxPool, name: str):
    hold = f"import fcntl, os, struct, time\ndef f():\n    fd = os.open({SHARED!r}, 0)\n    try: {HELD[name]}\n"
    hold += "    except OSError: pass\n    time.sleep(0.3)\n"
    before, future = locks(), jail.submit(Job(hold, ("f()",), Limits(call_seconds=1)))
    during = []
    while not future.done():
        during.append(locks())
        time.sleep(0.02)
    assert future.result().outcomes[0].value == "None"
    assert set(during) == {before}


def test_advisory_locks_of_a_program_on_its_own_files_succeed(jail: SandboxPool):
    program = """
import fcntl, mailbox, sqlite3
def f():
    with open('own', 'w') as file: fcntl.flock(file, fcntl.LOCK_EX); fcntl.lockf(file, fcntl.LOCK_EX)
    for write in range(3):
        with sqlite3.connect('own.db') as base:
            base.execute('create table if not exists t(x)'); base.execute('insert into t values (?)', [write])
    return sqlite3.connect('own.db').execute('select x from t').fetchall()
"""
    (execution,) = jail.execute([Job(program, ("f()",))])
    assert execution.outcomes[0].value == "[(0,), (1,), (2,)]"


WORK = "import time\ndef f():\n    end = time.process_time() + 0.12\n    while time.process_time() < end: pass\n"


@pytest.fixture
def started(monkeypatch) -> list[Report]:
    """The reports on all processes that are started for jobs."""
    reports: list[Report] = []
    unpack = Report.unpack
    monkeypatch.setattr(Report, "unpack", lambda data: reports.append(unpack(data)) or reports[-1])
    return reports


def test_no_program_reads_in_its_memory_what_was_granted_or_reported_of_the_last(started):
    search = Limits(call_seconds=8, load_seconds=9, program_seconds=30, memory_mb=1024)
    with SandboxPool(workers=1, backend="nsjail", limits=search) as pool:
        for turn in range(3):
            granted = (1.7320508 + turn, 2.6457513 + turn, 19.87654321, 4.1231056 + turn)
            limits = Limits(*granted)
            pool.execute([Job(WORK, ("f()",), limits)])
            numbers = (*granted, started[-1].cpu_seconds, started[-1].wall_seconds)
            masked = [bytes(byte ^ 255 for byte in struct.pack("d", number)) for number in numbers]
            (execution,) = pool.execute([Job(SEARCH, (f"search({masked!r})",))])
            assert execution.outcomes[0].value == "[1, 0, 0, 0, 0, 0, 0]", execution


CHOSEN = 1_234_567_890, 987_654_321  # seconds and nanoseconds


def test_no_program_reads_in_its_memory_what_the_last_one_answered_or_named():
    """The zygote, of which each is a fork, must not have seen any of it."""
    seconds, nanoseconds = CHOSEN
    number = seconds * 10**9 + nanoseconds
    as_python_keeps_it = struct.pack("3I", number & (1 << 30) - 1, number >> 30 & (1 << 30) - 1, number >> 60)
    as_c_keeps_it = struct.pack("2q", seconds, nanoseconds)
    secrets = (b"whisper-4711-4712", as_python_keeps_it, as_c_keeps_it, struct.pack("d", number / 1e9))
    masked = [bytes(byte ^ 255 for byte in secret) for secret in secrets]
    limits = Limits(call_seconds=8, load_seconds=9, program_seconds=30, memory_mb=1024)
    text = secrets[0].decode()
    calls = (*[f"f({text!r}, 0)"] * 60, f"f({text!r}, 0.2)")
    with SandboxPool(workers=1, backend="nsjail", limits=limits) as pool:
        left, *searched = pool.execute(
            [
                Job(PROGRAMS["LEAVE"].replace("NS", str(number)), calls, together=True),
                *[Job(SEARCH, (f"search({masked!r})",)) for _ in range(2)],
            ]
        )
    assert [outcome.value for outcome in left.outcomes] == [f'"{text * 100}"'] * 61
    for execution in searched:
        assert execution.outcomes[0].value == "[1, 0, 0, 0, 0]", execution


@pytest.mark.parametrize("chance", ["os.getpid() & 1", "os.urandom(1)[0] & 1", "time.perf_counter_ns() & 1", "True"])
def test_a_program_that_kills_itself_now_and_then_does_not_double_its_processes(jail: SandboxPool, started, chance):
    program = f"import os, time\nseen = []\ndef f(x):\n    seen.append(x)\n    {chance} and os.kill(os.getpid(), 9)\n"
    (execution,) = jail.execute([Job(program, tuple(f"f({x})" for x in range(60)))])
    assert len(execution.outcomes) == 60
    assert len(started) <= 60 + 8


def test_what_a_loading_sleeps_is_granted_once_and_not_for_every_call(jail: SandboxPool, started):
    program = "import time\ntime.sleep(0.4)\nseen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)\n"
    limits = Limits(load_seconds=0.4, wall_factor=2.5)
    (execution,) = jail.execute([Job(program, tuple(f"f({x})" for x in range(30)), limits)])
    ends = [outcome.status.value for outcome in execution.outcomes]
    assert (ends[0], ends[-1]) == ("returned", "timed out")
    assert len(started) <= 5  # in one second
