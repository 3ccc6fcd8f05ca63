"""SkyPilot's task file: its script is run as SkyPilot runs it, on one node and on two."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from fake_worker import wait_for
from tiny_run import ROOT, SETTINGS, steps_done

from codea1_jax.common.chips import find_hardware
from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, load

TASK = yaml.safe_load((ROOT / "launch" / "skypilot.yaml").read_text())
# In place of `codea1`: keeps its arguments, writes what a first node writes, and exits with the code in CODE.
TRAINING = """\
#!/bin/bash
printf '%s\\n' "$JAX_COMPILATION_CACHE_DIR" "$@" >"said$SKYPILOT_NODE_RANK"
if ((SKYPILOT_NODE_RANK == 0)); then mkdir -p runs/first && touch runs/first/config.yaml; fi
exit "$CODE"
"""


def make_program(file: Path, text: str) -> None:
    """An executable script."""
    file.write_text(text)
    file.chmod(0o755)


@pytest.fixture
def node(tmp_path: Path):
    """Starts the task's script on a node of some rank, in a directory of its own; nodes share a home and a bucket."""
    tree = tmp_path / "home" / "codea1" / "bin"
    tree.mkdir(parents=True)
    make_program(tree / "python", f'#!/bin/bash\nexec {sys.executable} "$@"\n')
    started: list[subprocess.Popen[bytes]] = []

    def start(rank: int, nodes: int, **settings: str) -> subprocess.Popen[bytes]:
        here = tmp_path / str(rank)
        here.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            **{key: value for key, value in TASK["envs"].items() if value is not None},
            "HOME": str(tmp_path / "home"),
            "RUN": "first",
            "BUCKET": f"file://{tmp_path}/bucket",
            "SKYPILOT_NODE_IPS": "\n".join(["127.0.0.1"] * nodes),
            "SKYPILOT_NUM_NODES": str(nodes),
            "SKYPILOT_NODE_RANK": str(rank),
            **settings,
        }
        with (tmp_path / f"errors{rank}").open("wb") as errors:
            process = subprocess.Popen(
                ["bash", "-c", TASK["run"]], cwd=here, env=environment, stderr=errors, start_new_session=True
            )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_every_node_gets_the_run_its_place_and_its_overrides_and_the_first_one_uploads(node, tmp_path):
    make_program(tmp_path / "home" / "codea1" / "bin" / "codea1", TRAINING)
    bucket = f"file://{tmp_path}/bucket"
    overrides = ["data.source=x", "model.architecture={hidden_size: 32, num_layers: 1}"]
    head = [f"{bucket}/first/compiled", "train", "1.5b/a1_h100"]
    own = ["data.source", "run.directory", "checkpoint.directory"]
    own = [*map("=".join, zip(own, (f"{bucket}/kodcode", "runs/first", f"{bucket}/first/checkpoints"), strict=True))]
    assert node(0, 1, CODE="0").wait(60) == 0
    assert (tmp_path / "0" / "said0").read_text().splitlines() == [*head, *own, "--resume"]
    assert (tmp_path / "bucket" / "first" / "run" / "config.yaml").exists()
    shutil.rmtree(tmp_path / "bucket")
    for rank in (1, 0):
        assert node(rank, 2, CODE="130", OVERRIDES=shlex.join(overrides)).wait(60) == 130  # SkyPilot sees the code
        hosts = ["mesh.replica=2", "hosts.coordinator=127.0.0.1:8482", "hosts.count=2", f"hosts.index={rank}"]
        said = (tmp_path / str(rank) / f"said{rank}").read_text().splitlines()
        assert said == [*head, *own, *hosts, *overrides, "--resume"]  # an override is the last word
        assert (tmp_path / "bucket").exists() == (rank == 0)


def test_an_override_with_an_open_quote_ends_the_task_before_it_trains(node, tmp_path):
    make_program(tmp_path / "home" / "codea1" / "bin" / "codea1", TRAINING)
    assert node(0, 1, CODE="0", OVERRIDES="run.seed=1 data.source='x").wait(60) != 0
    assert not (tmp_path / "0" / "said0").exists()
    assert "unmatched single quote" in (tmp_path / "errors0").read_text()


def test_its_hardware_is_that_of_its_preset_and_nodes_are_replicas():
    config = load(Config, TASK["envs"]["PRESET"])
    assert TASK["resources"]["accelerators"].lower() == config.hardware
    several = load(Config, TASK["envs"]["PRESET"], ["mesh.replica=2"])
    devices = find_hardware(config.hardware).devices
    assert several.mesh.shape(2 * devices) == (2, *config.mesh.shape(devices)[1:])


def test_its_scripts_are_sound(tmp_path):
    for name in ("setup", "run"):
        (tmp_path / f"{name}.sh").write_text(f"#!/usr/bin/env bash\n{TASK[name]}")
    subprocess.run([ROOT / ".venv" / "bin" / "shellcheck", *tmp_path.glob("*.sh")], check=True)


@pytest.mark.long
def test_two_nodes_are_stopped_and_another_pair_resumes_from_the_bucket(node, tmp_path):
    (tmp_path / "home" / "codea1" / "bin" / "codea1").symlink_to(Path(sys.executable).parent / "codea1")
    overrides = shlex.join([*SETTINGS, "train.steps=3", "checkpoint.every=1", "eval.every=0", "data.source=micro"])
    environment = {"PRESET": "micro/a1_paper", "OVERRIDES": overrides, "BUCKET": str(tmp_path / "bucket")}
    environment["JAX_PLATFORMS"] = "cpu"

    def start() -> list[subprocess.Popen[bytes]]:
        return [node(rank, 2, **environment) for rank in (0, 1)]

    def errors() -> list[str]:
        return [(tmp_path / f"errors{rank}").read_text() for rank in (0, 1)]

    nodes = start()
    wait_for(lambda: steps_done(tmp_path / "0" / "runs" / "first") >= 1, 300)
    for one in nodes:
        os.killpg(one.pid, signal.SIGTERM)  # all processes, as when a machine shuts down
    assert [one.wait(120) for one in nodes] == [130, 130], errors()
    for rank in ("0", "1"):  # other machines, which have the bucket alone
        shutil.rmtree(tmp_path / rank)
    nodes = start()
    assert [one.wait(300) for one in nodes] == [0, 0], errors()
    metrics = read_lines(tmp_path / "bucket" / "first" / "run" / "metrics.jsonl")
    assert [line["step"] for line in metrics if line["kind"] == "train"][-1] == 3
