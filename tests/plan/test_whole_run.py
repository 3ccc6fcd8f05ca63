"""Hours of a run: its steps, and what is done between them, by closed forms."""

import pytest

from codea1_jax.common.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.plan.assumptions import START_SECONDS
from codea1_jax.plan.phases import layout_table
from codea1_jax.plan.plan import count_evaluations, evaluation_seconds, saving_seconds, whole_run
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.workload import Phase

PHASES = [Phase(kind, role) for kind in ("weights", "prefill", "decode") for role in ("code", "test")]
NOTHING = dict.fromkeys(PHASES, 0.0)
A_BLOCK = {Phase("decode", "code"): 128.0}  # a second for every position
COARSE = "rollout.block=128"  # fewer blocks to simulate


def planned(name: str, *overrides: str):
    config = load(Config, name, overrides)
    hardware = find_hardware(config.hardware)
    return make_planned_run(config, hardware), hardware


def test_a_run_is_evaluated_before_its_first_step_on_the_way_and_after_its_last():
    config = load(Config, "1.5b/a1_v5e")  # every 10 steps
    assert count_evaluations(config, 111) == len([0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 111])
    assert count_evaluations(config, 110) == 12
    assert count_evaluations(config, 0) == 1
    assert count_evaluations(load(Config, "1.5b/a1_v5e", ["eval.every=0"]), 111) == 0


def test_an_evaluation_draws_eight_programs_for_each_problem_of_both_benchmarks():
    run, hardware = planned("1.5b/a1_v5e", COARSE)
    seconds = evaluation_seconds(run, hardware, 0.25, NOTHING | A_BLOCK)  # a second for every position
    # A step's 256 questions with 8 samples have 2,048 rows, and 256 prompts are resident at once: 542 problems are at
    # most three waves of the longest, 4,096; and at least their tokens, 1,024 a sample except for what is cut.
    assert 0.9 * 542 * 8 * 1024 / 2048 < seconds < 3 * 4096
    judging = evaluation_seconds(run, hardware, 0.25, NOTHING)
    assert judging == pytest.approx(542 * 8 / (330 * 14 * 16))
    # Weights are brought to where they are sampled from once for all problems.
    brought = {Phase("weights", "code"): 5.0}
    assert evaluation_seconds(run, hardware, 0.25, NOTHING | brought) == pytest.approx(judging + 5)
    assert (
        evaluation_seconds(run, hardware, 0.25, NOTHING | {Phase("decode", "test"): 1.0}) == judging
    )  # none is held out


def test_an_evaluation_decodes_by_its_own_program_where_it_samples_in_another_way():
    own = {Phase("evaluate", "code"): 256.0}
    run, hardware = planned("1.5b/a1_v5e", COARSE)
    as_steps, other = (evaluation_seconds(run, hardware, 0.25, NOTHING | A_BLOCK | more) for more in ({}, own))
    judging = evaluation_seconds(run, hardware, 0.25, NOTHING)
    assert other - judging == pytest.approx(2 * (as_steps - judging))
    own_program = Phase("evaluate", "code")
    assert own_program in layout_table(run)  # by top-p, which steps do not
    alike, _ = planned("1.5b/a1_v5e", "eval.top_p=1.0")
    never, _ = planned("1.5b/a1_v5e", "eval.every=0")
    assert layout_table(run).keys() - {own_program} == layout_table(alike).keys()
    assert layout_table(alike) == layout_table(never)


def test_held_out_questions_are_answered_by_both_models():
    """Eight programs each, two suites against a wrong program, and five rounds."""
    run, hardware = planned("1.5b/a1_v5e", COARSE, "data.heldout_share=0.1", "data.heldout_problems=100")
    judging = evaluation_seconds(run, hardware, 0.25, NOTHING)
    assert judging == pytest.approx((642 * 8 + 100 * (2 + 5)) / (330 * 14 * 16))
    assert evaluation_seconds(run, hardware, 0.25, NOTHING | {Phase("decode", "test"): 128.0}) > judging + 1024


def test_a_step_waits_for_a_save_that_its_upload_outlasts():
    run, hardware = planned("1.5b/a1_v5e")  # saves every step, from 4 hosts with 4 chips each
    # Float32: two policies with two moments each; bfloat16: the reference.
    saved = 1_543_714_304 * (2 * 3 * 4 + 2)
    copied = saved / 16 / 10e9
    assert saving_seconds(run, hardware, 1000.0) == pytest.approx(copied, rel=1e-6)
    assert saving_seconds(run, hardware, 4.0) == pytest.approx(copied + saved / 4 / 1e9 - 4.0, rel=1e-6)
    seldom, _ = planned("1.5b/a1_v5e", "checkpoint.every=10")
    assert saving_seconds(seldom, hardware, 4.0) == pytest.approx(copied, rel=1e-6)


def test_a_whole_run_is_its_parts():
    run, hardware = planned("1.5b/a1_v5e", COARSE)
    whole = whole_run(run, hardware, 0.25, 100.0, NOTHING)
    assert (whole.num_steps, whole.num_evaluations) == (111, 13)  # of the paper's 9,688 questions, three times
    limited, _ = planned("1.5b/a1_v5e", COARSE, "data.limit=2560")
    assert whole_run(limited, hardware, 0.25, 100.0, NOTHING).num_steps == 30
    judging, saving = evaluation_seconds(run, hardware, 0.25, NOTHING), saving_seconds(run, hardware, 100.0)
    assert whole.seconds == pytest.approx(111 * 100 + 13 * judging + 111 * saving + START_SECONDS["tpu"])
