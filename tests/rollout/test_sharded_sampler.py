"""A sampler draws the same tokens on every mesh, in one process and in two."""

import json
from pathlib import Path

import pytest
from workers import found_by, start_two, start_worker

WORKER = Path(__file__).with_name("sharded_sampler.py")
MESHES = [{"fsdp": 4, "tensor": 2}, {"replica": 2, "fsdp": 1, "tensor": 4}]


def all_the_same(drawn):
    alone = drawn["one device"]
    assert sum(map(len, alone)) == 30
    assert len({tuple(tokens) for samples in alone for tokens in samples}) > 25
    assert {name for name, tokens in drawn.items() if tokens != alone} == set()


def eight_devices_draw_the_same(meshes):
    drawn = found_by(start_worker(WORKER, json.dumps(meshes), devices=8))
    assert len(drawn) == 2 + len(meshes)
    all_the_same(drawn)


def test_eight_devices_draw_the_tokens_of_one():
    eight_devices_draw_the_same(MESHES[:1])


@pytest.mark.long
def test_other_meshes_draw_them_too():
    eight_devices_draw_the_same(MESHES[1:])


@pytest.mark.long
def test_two_processes_draw_the_tokens_of_one_device():
    workers = start_two(WORKER, json.dumps(MESHES[:1]), devices=4)
    first, second = map(found_by, workers)
    all_the_same(first)
    assert second == first
