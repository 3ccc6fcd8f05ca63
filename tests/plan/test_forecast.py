"""The calls of a step, against the packer at work, and what they are expected to take."""

import numpy as np
import pytest
from capacities import for_slots

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, PackingConfig, load
from codea1_jax.models.attention import flash_tpu
from codea1_jax.plan.assumptions import EFFICIENCY, HOST_SECONDS, PACKED_SECONDS, SCORED_SECONDS
from codea1_jax.plan.compiler import Compiled, ProgramName
from codea1_jax.plan.forecast import Calls, attention_flops, expected_seconds, step_calls, waiting_seconds
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.simulation import simulate_packing, simulate_sampling
from codea1_jax.plan.workload import Group, Load, Phase, draw_groups, sampling_loads

LOAD = Load("test", "test", prompts=2000, samples=8, prompt=8192, response=4096)


def test_one_row_decodes_its_samples_one_after_another_and_reads_what_each_has_so_far():
    lengths = (1, 16, 5, 9)
    one = simulate_sampling((Group(4, lengths),), for_slots(1, 1, (8,), (16,), block=4, prefill_tokens=8))
    assert sum(one.steps.values()) == sum(lengths)
    # At every step three tokens of the prompt, and as many of its own as the row had before the block.
    assert one.read == sum(3 + token // 4 * 4 for length in lengths for token in range(length))


def test_rows_are_decoded_together_and_share_their_prompt():
    capacity = for_slots(1, 4, (8,), (16,), block=4, prefill_tokens=8)
    found = simulate_sampling((Group(4, (1, 16, 5, 9)),), capacity)
    assert sum(found.steps.values()) == 16
    own = 4 * (0 + (4 + 4 + 4) + (8 + 8) + 12)  # four steps of each block, those that still run
    assert found.read == 16 * 3 + own
    more = simulate_sampling((Group(4, (1, 16, 5, 9, 8)),), capacity)
    assert sum(more.steps.values()) == 16  # the fifth begins in the second block


def test_blocks_count_by_the_rows_that_they_decode():
    capacity = for_slots(1, 64, (8,), (16,), block=4, prefill_tokens=8)
    found = simulate_sampling((Group(4, (4,) * 48 + (16,) * 16),), capacity)
    assert found.steps == {(64, 2, 3): 4, (16, 2, 3): 12}


def test_mini_batches_are_packed_by_themselves():
    packing = PackingConfig(row_length=32, micro_batch_tokens=32, logit_chunk=32)
    groups = (Group(20, (13,)),) * 4  # a sequence fills a row
    one_row, two_rows = (1, 32), (2, 32)
    assert simulate_packing(groups, 2, packing, 1, None) == (({one_row: 2}, 0),) * 2
    assert simulate_packing(groups, 2, packing, 2, None) == (({two_rows: 1}, 0),) * 2
    four_of_seven_tokens = (Group(2, (3, 3)),) * 4
    assert simulate_packing(four_of_seven_tokens, 1, packing, 1, None) == (({(1, 32): 1}, 0),)


def test_attention_is_of_the_blocks_in_which_something_is_seen():
    packing = PackingConfig(row_length=2048, micro_batch_tokens=2048)
    # A row of four blocks, a prompt and two responses, each of one block; and one of two, a prompt and one response.
    groups = (Group(512, (513, 513)), Group(512, (513,)))
    (mini,) = simulate_packing(groups, 1, packing, 1, flash_tpu)
    assert mini == ({(1, 2048): 1, (1, 1024): 1}, (4 + 2 + 2 + 1) * 512**2)  # diagonals, prompts
    (together,) = simulate_packing(groups, 1, packing, 2, flash_tpu)
    assert together == ({(2, 2048): 1}, (4 + 2) * 512**2)  # by the device with the longer row
    # Prompts of 512 and 256 tokens in a row of 1,024, whose blocks are of 512; none sees the other's.
    capacity = for_slots(2, 1, (1024,), (32,), block=32, prefill_tokens=1024)
    prefilled = simulate_sampling((Group(513, (1,)), Group(257, (1,))), capacity, flash_tpu)
    assert (prefilled.prefills, prefilled.pairs) == ({1024: 1}, 2 * 512**2)
    run = make_planned_run(load(Config, "7b/a1_v5e"), find_hardware("v5e:8x8"))
    # 28 layers, 28 heads of 128 that 4 devices share; two products forwards and seven backwards.
    heads = 28 * 28 / run.tensor * 128
    assert attention_flops(run, Phase("gradient", "test"), 1000) == 2 * (2 + 7) * 1000 * heads
    assert attention_flops(run, Phase("score-ref", "test"), 1000) == 2 * 2 * 1000 * heads


# --- lengths ------------------------------------------------------------------------------------------


def test_drawn_lengths_have_the_mean_that_is_asked_for_and_end_at_the_longest():
    groups = draw_groups(LOAD, 0.1)
    responses = np.array([group.responses for group in groups])
    assert responses.shape == (2000, 8) and 1 <= responses.min() <= responses.max() <= 4096
    assert responses.mean() == pytest.approx(409.6, rel=0.02)
    assert np.log(responses).std() == pytest.approx(0.6, rel=0.02)
    assert np.mean([group.prompt for group in groups]) == pytest.approx(819.2, rel=0.03)
    assert draw_groups(LOAD, 0.1) == groups
    assert max(max(group.responses) for group in draw_groups(LOAD, 1.0)) == 4096


# --- a step -------------------------------------------------------------------------------------------


def program(seconds):
    return Compiled(0, 0, 0, 0, 0, 0.0, seconds)


def test_a_call_takes_what_the_smallest_program_takes_that_holds_it():
    phase, calls = Phase("prefill", "code"), Calls({(64,): 10, (16,): 100, (32,): 1000}, host=0.14)
    compiled = {ProgramName(phase): program(1.0), ProgramName(phase, (16,)): program(0.5)}
    config = load(Config, "1.5b/a1_v5e")
    hardware = find_hardware(config.hardware)
    run = make_planned_run(config, hardware)
    assert expected_seconds(run, hardware, phase, calls, compiled) == pytest.approx(1.25 + 10 + 50 + 1000)
    assert expected_seconds(run, hardware, phase, calls, {ProgramName(phase): "needs 2 of 1"}) == 0


def test_reading_the_cache_takes_what_its_bytes_take():
    config = load(Config, "1.5b/a1_v5e", ["train.questions=16"])
    hardware = find_hardware(config.hardware)
    run = make_planned_run(config, hardware)
    step = step_calls(run, 0.25)
    phase = Phase("decode", "test")
    spent = expected_seconds(run, hardware, phase, step.calls[phase], {ProgramName(phase): program(1.0)})
    token = 2 * 28 * 2 * 128 * 2  # keys and values, layers, heads, dimensions, two bytes
    reached = EFFICIENCY[hardware.platform].cache * 819e9
    calls = step.calls[phase]
    read = calls.read * token / reached
    assert spent - calls.host_seconds - calls.count == pytest.approx(read, rel=0.01)


def test_a_step_s_learning_follows_from_its_mini_batches():
    halves = (f"{policy}.grpo.mini_batch_questions=16" for policy in ("code", "test"))
    config = load(Config, "1.5b/a1_v5e", ["train.questions=32", *halves])
    hardware = find_hardware(config.hardware)
    run = make_planned_run(config, hardware)
    step = step_calls(run, 0.25)
    policies, groups = ("code", "test"), {load.policy: draw_groups(load, 0.25) for load in sampling_loads(config)}
    assert [step.calls["update", policy].shapes for policy in policies] == [{(): 2}] * 2
    for policy in policies:
        gradients, old = (step.calls[kind, policy].count for kind in ("gradient", "score-old"))
        assert step.calls["gradient", policy] == step.calls["score-ref", policy]
        assert old == pytest.approx(gradients / 2, abs=2)  # all but the first of two mini-batches
        packed = PACKED_SECONDS * sum(group.drawn for group in groups[policy][:32])
        assert step.calls["update", policy].host_seconds == pytest.approx(2 * HOST_SECONDS + packed)
    # 256 programs on golden tests; 2,048 suites on their program and on the reference; 16 chips with 14 cores each.
    judged = (256 + 2 * 2048) / (330 * 16 * 14)
    drawn = sum(sum(group.responses) for sampled in groups.values() for group in sampled)
    assert step.drawn == drawn
    assert waiting_seconds(config, hardware, step) == pytest.approx(judged + SCORED_SECONDS * drawn)
    assert all(name.shape for name in step.smaller_programs(run))
