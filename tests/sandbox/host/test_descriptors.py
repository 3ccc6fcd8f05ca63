"""A judge of many workers needs more descriptors than processes usually may open."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.host import pool

ROOT = Path(__file__).parents[3]
JUDGE = """
import os, resource, sys
from sandbox import Job, SandboxPool, SandboxUnavailable
soft, hard, workers, jobs = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    with SandboxPool(workers=workers, backend="process") as pool:
        done = pool.execute([Job("def f(x):\\n    return x + 1", ("f(1)",))] * jobs)
    print(sum(execution.outcomes[0].value == "2" for execution in done), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
except SandboxUnavailable as error:
    print(error)
"""


def judge(soft: int, hard: int, workers: int, jobs: int) -> str:
    command = [sys.executable, "-c", JUDGE, *map(str, (soft, hard, workers, jobs))]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_twelve_workers_judge_a_thousand_jobs_where_64_descriptors_are_the_soft_limit():
    assert judge(64, 4096, 12, 1000) == "1000 4096"


def test_the_hard_limit_is_enough_if_it_just_suffices():
    assert judge(64, 12 * pool.DESCRIPTORS + 10, 12, 200).startswith("200 ")


@pytest.mark.parametrize(("hard", "workers"), [(64, 12), (64, 7), (256, 40)])
def test_where_the_hard_limit_is_too_low_one_line_says_what_to_do(hard: int, workers: int):
    said = judge(min(64, hard), hard, workers, 1)
    assert f"{workers} workers of the judge need" in said
    assert f"hard limit of {hard} " in said
    assert "fewer workers" in said and "ulimit -n" in said and "\n" not in said


@pytest.mark.parametrize(
    ("cores", "workers"), [(1, 1), (2, 2), (4, 4), (7, 7), (8, 7), (16, 14), (96, 84), (200, 175), (240, 210)]
)
def test_one_core_in_eight_is_left_to_those_who_submit_jobs(monkeypatch, cores: int, workers: int):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert pool.default_workers() == workers
