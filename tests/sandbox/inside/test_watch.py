import itertools
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox import CheckJob, Job, Limits, SandboxPool, Status, Task
from sandbox.inside import watch

LIMITS = Limits(call_seconds=0.3, load_seconds=0.6, program_seconds=8.0, wall_factor=2.0)
SPIN = "    end = time.thread_time() + 5\n    while time.thread_time() < end: {}\n    return 2\n"
OF_NO_AVAIL = yaml.safe_load(Path(__file__).with_name("of_no_avail.yaml").read_text())
PROGRAM = """
import os, resource, signal, stat, threading, time
def spin():
    while True: pass
def f(x):
    fds = [fd for fd in range(3, 16) if is_file(fd)]
    try: {start}
    except (OSError, ValueError): pass
"""
IS_FILE = """
def is_file(fd):
    try: return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError: return False
"""


@pytest.mark.parametrize("name", OF_NO_AVAIL)
def test_no_program_gains_time_for_a_call(jail: SandboxPool, name):
    start, turn = OF_NO_AVAIL[name]
    program = PROGRAM.format(start=start) + SPIN.format(turn) + IS_FILE
    (execution,) = jail.execute([Job(program, ("f(1)",), LIMITS)])
    assert execution.cpu_seconds < 1.2
    assert name == "answers what nobody asked" or execution.outcomes[0].status is Status.TIMED_OUT


def test_no_program_gains_time_to_load(jail: SandboxPool):
    program = "import signal\nsignal.setitimer(signal.ITIMER_PROF, 0)\nwhile True: pass\n"
    (execution,) = jail.execute([Job(program, ("f(1)",), LIMITS)])
    assert (execution.loaded.status, execution.loaded.detail) == (Status.TIMED_OUT, "CPU time")
    assert execution.cpu_seconds < 1.2


def test_a_checked_program_gains_no_time_for_a_call(jail: SandboxPool):
    program = PROGRAM.format(start="signal.setitimer(signal.ITIMER_PROF, 0)") + SPIN.format("pass").replace("5", "0.8")
    (result,) = jail.execute([CheckJob(program + IS_FILE, "assert f(1) == 2", "f", LIMITS)])
    assert (result.verdict.status.value, result.verdict.detail) == ("timed out", "CPU time")


@pytest.mark.parametrize("busy", [12], indirect=True)
def test_busy_neighbours_cost_no_verdict(jail: SandboxPool, busy):
    """The call, and the run, need less CPU time than they may use, but more wall-clock time than a sleeper is given."""
    limits = Limits(call_seconds=0.3, wall_factor=1.2)
    work = "import time\ndef f(x):\n    end = time.thread_time() + 0.2\n    while time.thread_time() < end: pass\n"
    call, run = jail.execute([Job(work, ("f(1)",), limits), Job(f"{work}f(1)", ("1",), limits, task=Task.STREAM)])
    assert (call.outcomes[0].value, run.outcomes[0].value) == ("None", "[]")


@pytest.mark.parametrize("used", [0.1, 0.7])
def test_looking_for_what_a_call_does_not_read_costs_a_slow_reference_no_answer(jail: SandboxPool, used):
    """More calls are made for that, but within the time of the first."""
    program = f"""
import time

def f(d):
    end = time.thread_time() + {used}
    while time.thread_time() < end: pass
    return d["a"] + d["b"]
"""
    job = Job(program, ("f({'a': 1, 'b': 2})",), Limits(call_seconds=1.0), is_reference=True)
    (execution,) = jail.execute([job])
    assert execution.outcomes[0].value == "3"


@pytest.mark.parametrize(
    ("turns", "cut", "after"),
    [
        pytest.param([0.003] + 2 * [0.0], watch.CUT_BY_CPU, 34 * 0.15, id="waits for its turn among fifty"),
        pytest.param([0.0005], watch.CUT_BY_WALL, 2 * 0.6, id="sleeps but for a moment now and then"),
        pytest.param([0.0], watch.CUT_BY_WALL, 0.6, id="sleeps"),
    ],
)
def test_time_without_a_turn_is_not_idle(monkeypatch, tmp_path, turns, cut, after):
    """A call has 0.1 s of CPU time or 0.6 idle ones; `turns` are what it uses from look to look."""
    now, cpu, ended = 0.0, 0.0, []
    monkeypatch.setattr(watch.time, "monotonic", lambda: now)
    monkeypatch.setattr(watch, "cpu_seconds", lambda _pid: cpu)
    monkeypatch.setattr(watch.os, "kill", lambda _pid, _signal: ended.append(now))
    answers = (tmp_path / "answers").open("w+b")
    answers.write(b"loaded\n")
    answers.flush()
    watched = watch.Watch(0, answers.fileno(), watch.GRANT.pack(0.1, 0.1, 60.0, 6.0, 0.6, 2, False))
    for used in itertools.islice(itertools.cycle(turns), 1000):
        now, cpu = now + watch.PERIOD, cpu + used
        watched._look()
        if ended:
            break
    assert watched.cut == cut
    assert ended[0] == pytest.approx(after, abs=3 * watch.PERIOD)


@pytest.mark.parametrize(
    ("turns", "ended_with", "idle"),
    [
        pytest.param([0.0], 0.003, 0.0, id="waits for its turn, and ends before the next look"),
        pytest.param([0.0, 0.0, 0.004], 0.004, 0.0, id="waits for its turns"),
        pytest.param([0.0] * 10, 0.0, 10 * watch.PERIOD, id="sleeps, and ends in its sleep"),
        pytest.param([0.0] * 10 + [0.001, 0.0], 0.0, 11 * watch.PERIOD - 0.05, id="sleeps, then answers"),
    ],
)
def test_a_loading_that_waits_for_its_turn_among_others_is_not_charged_as_idle(
    monkeypatch, tmp_path, turns, ended_with, idle
):
    now, cpu = 0.0, 0.0
    monkeypatch.setattr(watch.time, "monotonic", lambda: now)
    monkeypatch.setattr(watch, "cpu_seconds", lambda _pid: cpu)
    answers = (tmp_path / "answers").open("w+b")
    watched = watch.Watch(0, answers.fileno(), watch.GRANT.pack(9.0, 9.0, 60.0, 6.0, 9.0, 2, False))
    for used in turns:
        now, cpu = now + watch.PERIOD, cpu + used
        if cpu and len(turns) > 3:
            answers.write(b"loaded\n")
            answers.flush()
        watched._look()
    assert watched.idle_load(cpu + ended_with) == pytest.approx(idle)


def test_the_account_of_a_process_that_is_no_more_is_not_idle_time(monkeypatch, tmp_path):
    accounts = iter([0.09, 0.0])
    monkeypatch.setattr(watch, "cpu_seconds", lambda _pid: next(accounts))
    with (tmp_path / "answers").open("w+b") as answers:
        watched = watch.Watch(0, answers.fileno(), watch.GRANT.pack(0.1, 0.1, 60.0, 6.0, 0.6, 2, False))
        watched._look()
        watched._look()
    assert watched.cut == watch.NOT_CUT


def test_whoever_sleeps_is_ended_by_the_wall_clock_though_it_uses_no_time(jail: SandboxPool):
    program = "import time\ndef f(x):\n    while True: time.sleep(0.01)\n"
    (execution,) = jail.execute([Job(program, ("f(1)",), LIMITS)])
    assert (execution.outcomes[0].status, execution.outcomes[0].detail) == (Status.TIMED_OUT, "wall-clock time")


def test_an_alarm_that_comes_while_answers_are_read_starts_no_second_reading(monkeypatch, tmp_path):
    preadv, readings = os.preadv, []

    def read_slowly(*place: Any) -> int:
        readings.append(place)
        if len(readings) < 50:
            watched._ring(0, None)  # as a program does, again and again
        return preadv(*place)

    monkeypatch.setattr(watch.os, "preadv", read_slowly)
    monkeypatch.setattr(watch, "cpu_seconds", lambda _pid: 0.0)
    with (tmp_path / "answers").open("w+b") as answers:
        answers.truncate(8 << 20)
        watched = watch.Watch(0, answers.fileno(), watch.GRANT.pack(0.1, 0.1, 60.0, 6.0, 0.6, 2, False))
        watched._ring(0, None)
    assert len(readings) == 129  # 64 kB each, and nothing after them
