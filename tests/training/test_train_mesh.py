"""A run over a mesh of eight devices gives the figures of a run on one."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_run import finish, refused, start_codea1, train_arguments, without_times
from workers import flags_for

from codea1_jax.run.telemetry import rollouts_path

EIGHT_DEVICES = {"XLA_FLAGS": flags_for(8)}
ONE_STEP = (
    "train.steps=1",
    "train.questions=4",
    "rollout.rows=16",
    "rollout.samples=4",
    "rollout.suites=4",
    "rollout.temperature=1.0",
    "code.grpo.mini_batch_questions=4",
    "test.grpo.mini_batch_questions=4",
    "eval.every=0",
    "checkpoint.every=1",
)


def figures(directory: Path) -> dict[str, float]:
    """What step 1 logged, except for times."""
    (line,) = [line for line in without_times(directory) if line["kind"] == "train"]
    return {name: value for name, value in line.items() if name != "kind"}


def rollouts(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in rollouts_path(directory, 1).read_text().splitlines()]


@pytest.mark.long
def test_a_step_over_a_mesh_logs_the_figures_of_one_device(tmp_path):
    one, mesh = tmp_path / "one", tmp_path / "mesh"
    finish(start_codea1(*train_arguments(one, *ONE_STEP)))  # makes the warm start, if there is none yet
    finish(start_codea1(*train_arguments(mesh, *ONE_STEP, "mesh.fsdp=4", "mesh.tensor=2"), environment=EIGHT_DEVICES))
    expected = figures(one)
    assert min(expected["code/grad_norm"], expected["test/grad_norm"]) > 0.1
    assert figures(mesh) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert rollouts(mesh) == rollouts(one)


def test_a_mesh_that_does_not_fit_is_refused_in_a_line(tmp_path):
    commands = [train_arguments(tmp_path, *ONE_STEP, setting) for setting in ("mesh.fsdp=3", "mesh.tensor=8")]
    said = refused(*commands, environment=EIGHT_DEVICES)
    devices, heads = (line for line in said if line.startswith("codea1: "))
    assert "mesh.replica=1 x mesh.fsdp=3 x mesh.tensor=1 does not fit 8 devices" in devices
    assert "mesh.tensor=8 does not divide num_heads=2: set mesh.tensor to 2 or another divisor" in heads
    assert said[-1] == heads
