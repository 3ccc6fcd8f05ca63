"""A round that two hosts judge together is the round that one judges alone."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from sharing_worker import played

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("sharing_worker.py")


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(WORKER), *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(worker: subprocess.Popen[str]) -> dict:
    out, errors = worker.communicate(timeout=300)
    assert worker.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


def test_two_hosts_judge_a_share_each_and_know_the_same():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    hosts = [start("2", str(index), address) for index in range(2)]
    first, second = map(told, hosts)
    alone = played()
    assert first["rewards"] == second["rewards"] == alone["rewards"]
    assert len({reward for rewards in alone["rewards"] for reward in rewards}) > 3
    assert first["jobs"] + second["jobs"] == alone["jobs"]
    assert min(first["jobs"], second["jobs"]) > 0.3 * alone["jobs"]
