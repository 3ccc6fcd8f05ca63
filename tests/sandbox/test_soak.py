import gc
import os
import random
from pathlib import Path

import pytest
from test_hostile_programs import HONEST, PROGRAMS, TESTS, descendants

from sandbox import JudgeJob, SandboxPool

# Those that end at once: the others would make this a test of patience.
QUICK = (
    *("prints markers", "exits in the call", "exits at once after printing", "always equal object", "memory bomb"),
    *("leaves a daemon behind", "leaves a thread behind", "kills everybody", "kills the zygote", "abort"),
    *("segmentation fault", "writes garbage to every descriptor", "closes every descriptor", "cyclic list"),
    *("deep recursion", "shared memory that would outlive it", "runs a shell", "opens many files", "maps memory"),
)


def held(pool: SandboxPool) -> dict[str, int]:
    """What the host and the workers hold: kilobytes, descriptors, processes and mounts."""
    gc.collect()
    zygotes = [child for pid in pool.worker_pids for child in descendants(pid)]
    anonymous = [
        line for pid in (os.getpid(), *zygotes) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    ]
    return {
        "memory_kb": sum(int(line.split()[1]) for line in anonymous if line.startswith("RssAnon")),
        "descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in (os.getpid(), *zygotes)),
        "processes": len(zygotes),
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
    }


@pytest.mark.parametrize("count", [200, pytest.param(100_000, marks=pytest.mark.long)])
def test_many_programs_leave_nothing_behind(jail: SandboxPool, count: int):
    rng = random.Random(0)
    jail.judge([JudgeJob(HONEST, TESTS)] * 100)
    before, restarts = held(jail), jail.restarts
    for _ in range(count // 200):
        hostile = [JudgeJob(PROGRAMS[rng.choice(QUICK)][0], TESTS) for _ in range(10)]
        jobs = [JudgeJob(HONEST, TESTS)] * 190 + hostile
        rng.shuffle(jobs)
        for job, verdicts in zip(jobs, jail.judge(jobs), strict=True):
            assert job.program != HONEST or all(verdict.passed for verdict in verdicts.tests)
    after = held(jail)
    print(f"{count} programs: before {before}, after {after}")
    assert jail.restarts == restarts
    for name in ("descriptors", "processes", "mounts"):
        assert after[name] <= before[name]
    assert after["memory_kb"] < before["memory_kb"] + 20_000
