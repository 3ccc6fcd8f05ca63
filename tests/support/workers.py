"""Scripts next to the tests that run in separate processes, with their own devices, and print a line of JSON."""

import contextlib
import json
import os
import random
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

from tiny_run import ROOT, start_script

from codea1_jax.runtime.join import IN_ORDER


def flags_for(devices: int) -> str:
    """XLA_FLAGS of a process with that many virtual devices, which compiles as cheaply as this one."""
    return f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"


def start_worker(script: Path, *arguments: str, devices: int = 1) -> subprocess.Popen[str]:
    """Starts one process with that many virtual devices."""
    flags, path = f"{flags_for(devices)} {IN_ORDER}", f"{ROOT}:{ROOT / 'tests' / 'support'}"
    return start_script(str(script), *arguments, XLA_FLAGS=flags, PYTHONPATH=path)


def start_two(script: Path, *arguments: str, devices: int = 1) -> list[subprocess.Popen[str]]:
    """Starts two that meet: their last arguments are an address, the number of processes and their own index."""
    address = f"127.0.0.1:{free_port()}"
    return [start_worker(script, *arguments, address, "2", str(index), devices=devices) for index in range(2)]


def found_by(worker: subprocess.Popen[str]) -> Any:
    """The JSON that a process printed, once it has ended well; Gloo's threads may print into the same line."""
    out, errors = worker.communicate()
    assert worker.returncode == 0, errors
    begin = re.search(r"\{\"|\[\[", out)
    assert begin is not None, out
    return json.JSONDecoder().raw_decode(out[begin.start() :])[0]


def free_port() -> int:
    """A port that is free now, below those that the system gives to connections: it is still free when it is used."""
    for port in random.SystemRandom().sample(range(10_000, 30_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port between 10000 and 30000")
