"""What a run measures of a step, next to the plan of its layout."""

import json
from dataclasses import replace
from types import SimpleNamespace

import jax
import pytest

from codea1_jax.config import Config, load
from codea1_jax.plan.comparison import compare, find_forecast, forecast_of
from codea1_jax.plan.planned import read_plans

H100 = SimpleNamespace(device_kind="NVIDIA H100 80GB HBM3")


def test_a_run_finds_the_plan_of_its_layout_whatever_it_trains_on_and_how_long(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: [H100] * 8)
    config = load(Config, "1.5b/golden_h100", ["train.steps=3", "data.source=elsewhere", "code.grpo.kl_coef=0.01"])
    found = find_forecast(config)
    assert found is not None
    assert found.args == (config, read_plans().plans["1.5b/a1_h100"])


@pytest.mark.parametrize(
    ("preset", "overrides", "devices"),
    [
        ("1.5b/a1_h100", ["rollout.rows=512"], [H100] * 8),
        ("1.5b/a1_h100", ["test.packing.micro_batch_tokens=49152"], [H100] * 8),
        ("1.5b/a1_h100", [], [H100] * 4),
        ("1.5b/a1_h100", [], [SimpleNamespace(device_kind="cpu")] * 8),
        ("1.5b/sft_h100", [], [H100] * 8),  # records no lengths
        ("1.5b/a1", [], [H100] * 8),
        ("micro/a1", [], [SimpleNamespace(device_kind="cpu")]),
    ],
)
def test_another_layout_other_devices_or_a_method_without_lengths_have_no_forecast(
    preset, overrides, devices, monkeypatch
):
    monkeypatch.setattr(jax, "devices", lambda: devices)
    assert find_forecast(load(Config, preset, overrides)) is None


def test_a_step_is_compared_by_its_own_lengths_and_the_part_that_is_furthest_off_is_named(tmp_path):
    """Calls that are counted by hand: two questions, two programs of 40 tokens each, two suites of 70 for each,
    in blocks of 32. Both samples of a prompt are drawn at once, by the GPU that holds it."""
    settings = ["train.questions=2", "rollout.samples=2", "rollout.suites=2", "rollout.engine=core"]
    mini = [f"{policy}.grpo.mini_batch_questions=2" for policy in ("code", "test")]
    config = load(Config, "1.5b/a1_h100", [*settings, *mini])
    suite = {"response_tokens": 70, "prompt_tokens": 90, "advantage": 1.0, "trained": True}
    answered = {"response_tokens": 40, "prompt_tokens": 50, "advantage": 0.5, "suites": [suite, suite]}
    programs = [{"duplicate_of": index, **answered} for index in range(2)]
    rollouts = tmp_path / "step_000002.jsonl"
    rollouts.write_text(2 * (json.dumps({"programs": programs}) + "\n"))
    a_second = {phase: (0.5, 1.0) for phase in read_plans().plans["1.5b/a1_h100"].call_seconds}
    plan = replace(read_plans().plans["1.5b/a1_h100"], call_seconds=a_second)
    seconds = forecast_of(config, plan, rollouts)
    # The weights, one prefill, its pages into the cache, and the blocks; the KL term's reference, the gradient, its
    # zeros and the update.
    assert seconds == {
        "generate_code": pytest.approx(1 + 1 + 1 + 40 / 32),
        "generate_tests": pytest.approx(1 + 1 + 1 + 70 / 32),
        "update_code": 4.0,
        "update_test": 4.0,
    }
    measured = {f"seconds/{part}": 2 * expected for part, expected in seconds.items()}
    measured["seconds/update_test"] = 1.0
    line = compare(config, plan, measured, rollouts)
    assert line.startswith("27.9 s without judging, where 17.4 are forecast: generate code 8.5 (4.2), ")
    assert line.endswith("furthest from its forecast: update test, 0.25 times")
