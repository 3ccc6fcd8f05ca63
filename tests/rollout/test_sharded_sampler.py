"""A sampler draws the same tokens on every mesh, in one process and in two."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("sharded_sampler.py")
MESHES = [{"fsdp": 4, "tensor": 2}, {"replica": 2, "fsdp": 1, "tensor": 4}]


def start_worker(devices, *arguments):
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, str(WORKER), *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def drawn_by(worker):
    out, errors = worker.communicate(timeout=300)
    assert worker.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


def all_the_same(drawn):
    alone = drawn["one device"]
    assert sum(map(len, alone)) == 30
    assert len({tuple(tokens) for samples in alone for tokens in samples}) > 25
    assert {mesh for mesh, tokens in drawn.items() if tokens != alone} == set()


def eight_devices_draw_the_same(meshes):
    drawn = drawn_by(start_worker(8, json.dumps(meshes)))
    assert len(drawn) == 2 + 2 * len(meshes)
    all_the_same(drawn)


def test_eight_devices_draw_the_tokens_of_one():
    eight_devices_draw_the_same(MESHES[:1])


@pytest.mark.long
def test_other_meshes_draw_them_too():
    eight_devices_draw_the_same(MESHES[1:])


@pytest.mark.long
def test_two_processes_draw_the_tokens_of_one_device():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    workers = [start_worker(4, json.dumps(MESHES[:1]), address, "2", str(index)) for index in range(2)]
    first, second = map(drawn_by, workers)
    all_the_same(first)
    assert second == first
