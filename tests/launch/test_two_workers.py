"""Two processes stand in for two workers of a slice, and really train; the slice is preempted in between."""

import json
import sys
from pathlib import Path

import pytest
from fake_cloud import Cloud, Script
from fake_worker import add_worker, wait_for
from tiny_run import SETTINGS, steps_done
from workers import free_port

from codea1_jax.common.files import read_lines

# A TPU connects its processes and all of them reach its bucket; here two settings and a path do.
TRAINING = """\
exec env JAX_PLATFORMS=cpu {python} -m codea1_jax.cli "${{@//gs:\\/\\//{buckets}}}" \
    hosts.coordinator=127.0.0.1:"$(cat {port})" hosts.count=2 hosts.index={index}
"""


@pytest.mark.long
def test_two_workers_train_through_a_preemption_and_the_results_are_copied_back(cloud: Cloud, tmp_path: Path):
    port = tmp_path / "port"
    port.write_text(str(free_port()))
    buckets = str(cloud.bucket("gs://")).replace("/", "\\/") + "\\/"
    homes = [
        add_worker(cloud, TRAINING.format(python=sys.executable, buckets=buckets, port=port, index=index))
        for index in range(2)
    ]
    steps_before = []

    def after_a_step() -> None:
        wait_for(lambda: steps_done(homes[0] / "runs" / "first") >= 1, seconds=240)
        steps_before.append(steps_done(homes[0] / "runs" / "first"))
        port.write_text(str(free_port()))

    cloud.script = Script(preemptions={"worker.sh logs": 1}, preempt_when=after_a_step)
    settings = (*SETTINGS, "train.steps=4", "checkpoint.every=1", "eval.every=4", "eval.suites=1")
    where = ("--project=me", "--zone=us-west4-a", "--bucket=gs://mine/runs", "--tpu=v5e:2x4", "--poll=0.2")
    assert cloud.launch("tpu", "up", "first", "micro/a1_paper", *settings, *where, "--spot", "--retries=0") == 0

    once = ["create", "scp", "install", "start", "logs"]
    assert [verb for verb in cloud.verbs if verb not in ("upload", "status")] == [
        *once, "delete", *once, "stop", "copy", "delete"
    ]  # fmt: skip
    assert 1 <= steps_before[0] < 4
    results = tmp_path / "runs" / "first"
    steps = [line["step"] for line in read_lines(results / "metrics.jsonl") if line["kind"] == "train"]
    assert steps == [1, 2, 3, 4]
    assert json.loads((results / "summary.json").read_text())
    assert (results / "report.html").exists()
    assert (cloud.bucket("gs://mine/runs/first/checkpoints") / "4").is_dir()
    assert cloud.queue == []
