"""What crosses the network between replicas, which may be slices of a pod: read from compiled programs."""

from pathlib import Path

import pytest
from workers import found_by, start_worker

WORKER = Path(__file__).with_name("replica_worker.py")


def test_gradients_cross_the_network_between_replicas_once_in_an_update():
    found = found_by(start_worker(WORKER, devices=8))
    assert found["micro-batch"] < 0.01 * found["parameters"]  # figures of the loss alone
    assert found["update"] == pytest.approx(2 * 7 / 8 * found["parameters"], rel=0.01)
