"""The physical limit of a step, against loops over tokens."""

from dataclasses import replace

import pytest

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.models.flops import cache_bytes, parameters
from codea1_jax.plan.forecast import step_calls
from codea1_jax.plan.memory import resident
from codea1_jax.plan.phases import forward_flops, ideal_table, step_seconds
from codea1_jax.plan.plan import limit_seconds
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.workload import Group

PRESET = "1.5b/a1_h100"


def planned(topology="h100:8", *overrides):
    config, hardware = load(Config, PRESET, overrides), find_hardware(topology)
    return make_planned_run(config, hardware), hardware


def sampling_seconds(run, hardware, *groups):
    return step_seconds(ideal_table(run, hardware, {"code": groups}, {}), hardware)


def test_a_few_samples_take_as_many_readings_of_the_weights_as_the_longest_has_tokens():
    run, hardware = planned()
    moved = 0
    for step in range(7):  # of samples of 7, 2 and 3 tokens after two prompts
        moved += 2 * parameters(run.model)
        for prompt, lengths in ((100, (7, 2)), (40, (3,))):
            running = [length for length in lengths if step < length]
            moved += cache_bytes(run.model, 2) * (prompt * bool(running) + (step + 1) * len(running))
    found = sampling_seconds(run, hardware, Group(100, (7, 2)), Group(40, (3,)))
    prefill = found - moved / (8 * hardware.chip.bandwidth)
    assert prefill == pytest.approx(140 * 2 * 1.31e9 / (8 * 989e12), rel=0.05)  # without the table: 1.54 - 0.23 billion


def test_weights_are_read_once_for_as_many_samples_as_fit():
    run, hardware = planned()
    groups = (Group(1000, (1000,) * 8),) * 4096
    each = cache_bytes(run.model, 2) * (1000 + 8 * 500) / 8
    rows = (8 * (hardware.chip.memory - resident(run)) - 2 * parameters(run.model)) // each
    weights = 4096 * 8 * 1000 / rows * 2 * parameters(run.model)
    read = cache_bytes(run.model, 2) * 4096 * (1000 * 1000 + 8 * 1000 * 1001 / 2)
    prefill = sampling_seconds(run, hardware, *(Group(1000, (1,)),) * 4096)  # hardly more than its prompts
    expected = (weights + read) / (8 * hardware.chip.bandwidth) + prefill
    assert sampling_seconds(run, hardware, *groups) == pytest.approx(expected, rel=0.01)


def test_the_limit_is_of_the_hardware_and_the_lengths_not_of_the_layout():
    run, hardware = planned("h100:8", "train.questions=8")
    step = step_calls(run, 0.25)
    laid_otherwise = replace(run, config=load(Config, PRESET, ["train.questions=8", "rollout.rows=64"]))
    limit = limit_seconds(run, hardware, step)
    assert limit == limit_seconds(laid_otherwise, hardware, step_calls(laid_otherwise, 0.25))
    twice = replace(hardware.chip, flops=2 * hardware.chip.flops, bandwidth=2 * hardware.chip.bandwidth)
    assert limit_seconds(run, replace(hardware, chip=twice), step) == pytest.approx(limit / 2)


def test_learning_computes_a_prompt_once_and_three_forward_passes_besides_scoring():
    run, hardware = planned("h100:8", "code.grpo.kl_coef=0.001")
    group = Group(5, (3, 2))
    model = run.model
    matrices = 2 * (model.num_layers * (parameters(model) - model.vocab_size * model.hidden_size) // model.num_layers)
    looked_at = sum(range(1, 6)) + (6 + 7 + 8) + (6 + 7)
    attention = 4 * model.num_layers * model.num_heads * model.head_dim * looked_at
    flops = 10 * matrices + attention + 5 * 2 * model.vocab_size * model.hidden_size
    assert forward_flops(model, [group]) == pytest.approx(flops, rel=1e-3)  # except for norms and biases
    passes = 3 + 1 / 2 + 1  # the second mini-batch is scored by the old policy, all by the reference
    moved = 2 * 28 * parameters(model) / hardware.chip.bandwidth / 8
    seconds = step_seconds(ideal_table(run, hardware, {}, {"code": (group,) * 10}), hardware)
    assert seconds - moved == pytest.approx(passes * 10 * forward_flops(model, [group]) / (8 * hardware.chip.flops))
