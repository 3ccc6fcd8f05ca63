"""A fleet whose replicas are killed, stopped and answer garbage: verdicts are those of one pool, and none is lost."""

import dataclasses
import gc
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import test_hostile_programs as functions
import test_hostile_streams as streams
from aiohttp import web
from service import running
from test_judge_replicas import GARBAGE, answering
from workers import free_port

from sandbox import JudgeJob, Limits, SandboxPool, SandboxUnavailable, Task, Verdicts
from sandbox.remote.client import RemoteJudge

ROOT = Path(__file__).parents[3]
LIMITS = Limits(call_seconds=1.0, program_seconds=20.0, memory_mb=256)
SURE = ("prints markers", "exits in the call", "always equal object", "abort", "segmentation fault", "cyclic list")


def served(port: int) -> subprocess.Popen[bytes]:
    """A judge, as a process."""
    command = [sys.executable, "-m", "codea1_judge", "serve", "--workers=1", f"--port={port}"]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)


@contextmanager
def judges(count: int) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """That many, by their addresses; whoever replaces one puts it there."""
    ports = [free_port() for _ in range(count)]
    processes = {f"http://127.0.0.1:{port}": served(port) for port in ports}
    try:
        yield processes
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


def connected(stack: ExitStack, addresses: Sequence[str]) -> RemoteJudge:
    """A client, once all of them answer."""
    for address in addresses:
        for _ in range(600):
            try:
                RemoteJudge([address]).close()
                break
            except SandboxUnavailable:
                time.sleep(0.1)
    return stack.enter_context(RemoteJudge(addresses, limits=LIMITS))


@contextmanager
def tormented(processes: dict[str, subprocess.Popen[bytes]], seconds: float) -> Iterator[Counter[str]]:
    """Kills the first every few seconds, and starts it again; the second is stopped, and continued in between."""
    killed, hung, *_ = processes
    over, done = threading.Event(), Counter[str]()

    def torment() -> None:
        while not over.wait(seconds):
            os.kill(processes[hung].pid, signal.SIGSTOP)
            processes[killed].kill()
            processes[killed].wait()
            over.wait(seconds / 4)
            processes[killed] = served(int(killed.rpartition(":")[2]))
            over.wait(2 * seconds)
            os.kill(processes[hung].pid, signal.SIGCONT)
            done.update(("killed", "stopped"))

    thread = threading.Thread(target=torment)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()
        os.kill(processes[hung].pid, signal.SIGCONT)


def jobs(rng: random.Random, count: int) -> list[JudgeJob]:
    """Functions and streams, one in twenty of them hostile."""
    hostile = [JudgeJob(functions.PROGRAMS[name][0], functions.TESTS) for name in SURE]
    hostile.append(JudgeJob("import os\nos._exit(0)\n", streams.TESTS, task=Task.STREAM))
    hostile.append(JudgeJob("print('[6]')\n", streams.TESTS, task=Task.STREAM))
    honest = [
        *(JudgeJob(f"def f(x):\n    return x + {n}\n", functions.TESTS) for n in range(1, 20)),
        *(
            JudgeJob(f"input()\nprint(sum(map(int, input().split())) + {n})\n", streams.TESTS, task=Task.STREAM)
            for n in range(4)
        ),
    ]
    return [rng.choice(hostile if rng.random() < 0.05 else honest) for _ in range(count)]


def seen(verdicts: Verdicts) -> tuple[object, ...]:
    return verdicts.loaded.status, *((each.status, each.value) for each in verdicts.tests)


def garbage(rng: random.Random) -> web.Application:
    """Each answer a different one."""

    def answer() -> web.StreamResponse:
        return rng.choice(list(GARBAGE.values()))()

    return answering(answer)


def memory_kb(pid: int) -> int:
    return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


@pytest.mark.parametrize(("count", "seconds"), [(200, 1.0), pytest.param(100_000, 1.5, marks=pytest.mark.long)])
def test_no_verdict_changes_and_none_is_lost(jail: SandboxPool, count: int, seconds: float):
    rng = random.Random(0)
    expected: dict[JudgeJob, tuple[object, ...]] = {}
    with ExitStack() as stack:
        processes = stack.enter_context(judges(3))
        bad = stack.enter_context(running(garbage(rng)))
        judge = connected(stack, [*processes, bad])
        done = stack.enter_context(tormented(processes, seconds))
        began, before, judged = time.monotonic(), [], 0
        client_and_survivor = os.getpid(), list(processes.values())[2].pid
        while judged < count or not done:
            batch = jobs(rng, 200)
            new = list({job for job in batch if job not in expected})
            limited = [dataclasses.replace(job, limits=LIMITS) for job in new]
            expected.update(zip(new, map(seen, jail.judge(limited)), strict=True))
            for job, verdicts in zip(batch, judge.judge(batch), strict=True):
                assert seen(verdicts) == expected[job], job
            judged += len(batch)
            gc.collect()
            after = list(map(memory_kb, client_and_survivor))
            before = before or (after if judged >= count // 5 else [])
        took = time.monotonic() - began
    print({"judged": judged, "seconds": round(took, 1), **done, "memory_kb": [before, after]})
    assert all(late < early + 20_000 for early, late in zip(before, after, strict=True))
