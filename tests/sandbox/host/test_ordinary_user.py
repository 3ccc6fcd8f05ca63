import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from sandbox.host.interpreter import find_interpreter, in_private_folder

ROOT = Path(__file__).parents[3]
SOMEBODY = 47_110  # a user and group that own nothing


@pytest.mark.skipif(os.geteuid() != 0, reason="this whole suite is then run by an ordinary user")
@pytest.mark.skipif(in_private_folder(ROOT / "sandbox"), reason="the repository lies where other users cannot read it")
@pytest.mark.skipif(in_private_folder(find_interpreter().executable), reason="no other user can read this Python")
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.long)])
def test_an_ordinary_users_jail_holds_too(every):
    """Against each of the hostile programs, or one in `every`."""
    script = """
import sys
from sandbox import JudgeJob, SandboxPool, Test
sys.path[:0] = "tests/sandbox", "tests/support"
import test_hostile_programs as hostile
from conftest import FAST
chosen = list(hostile.PROGRAMS.items())[:: int(sys.argv[1])]
with SandboxPool(workers=2, backend="nsjail", limits=FAST) as jail:
    verdicts = jail.judge([JudgeJob(program, hostile.TESTS) for _, (program, _) in chosen])
    for (name, (_, allowed)), verdict in zip(chosen, verdicts):
        assert {test.status.value for test in verdict.tests} <= set(allowed), (name, verdict)
    assert all(verdict.passed for verdict in jail.judge([JudgeJob(hostile.HONEST, hostile.TESTS)])[0].tests)
    assert jail.restarts == 0
    assert [len(hostile.descendants(pid)) for pid in jail.worker_pids] == [1, 1]
"""
    command = [find_interpreter().executable, "-c", script, str(every)]
    packages = sysconfig.get_path("purelib")
    environment = {"PYTHONPATH": f"{ROOT}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"}
    user = {"user": SOMEBODY, "group": SOMEBODY, "extra_groups": []}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, **user)
    assert result.returncode == 0, result.stderr
