"""The programs that `codea1 plan --calibrate` measures are those that a rollout and an update run; on a CPU."""

import json

import numpy as np
import pytest
from tiny_policy import tiny_policy

from codea1_jax.cli import main
from codea1_jax.common.chips import find_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.plan.arithmetic.lengths import choose_groups
from codea1_jax.plan.arithmetic.planned_run import planned_run_on
from codea1_jax.plan.arithmetic.simulation import batch_shape, sample_batches
from codea1_jax.plan.arithmetic.workload import Group, Phase, sampling_loads
from codea1_jax.plan.calibrate import Calibrated, Calibration, Measured, filled, phase_forecast, read_calibration
from codea1_jax.plan.compiled.compiler import Compiled, ProgramName
from codea1_jax.plan.compiled.programs import make_programs
from codea1_jax.plan.forecast import Calls, step_calls
from codea1_jax.plan.plan import make_plan
from codea1_jax.rollout import Request, Sampler, Sampling
from codea1_jax.rollout.decode import Decoder

SMALL = (
    "model.architecture={hidden_size: 24, intermediate_size: 40, num_layers: 1, head_dim: 6}",
    "rollout={samples: 3, rows: 6, block: 8, code_prompt_tokens: 256, code_tokens: 256, prefill_tokens: 512}",
    "code.packing={row_length: 512, micro_batch_tokens: 512, logit_chunk: 64}",
    "code.grpo={mini_batch_questions: 4, kl_coef: 0.001}",
    "train.questions=8",
)
LENGTHS = {
    "code": [
        Group(prompt, responses)
        for prompt, responses in [
            *((250, (1, 256, 50)), (160, (40, 40, 170)), (90, (130, 2, 2)), (80, (80, 31, 30))),
            *((2, (16, 1, 1)), (12, (3, 9, 25)), (25, (1, 1, 1)), (3, (70, 80, 90))),
        ]
    ]
}


@pytest.fixture(scope="module")
def run():
    return planned_run_on(load(Config, "micro/golden", SMALL), "cpu", 1)


@pytest.fixture(scope="module")
def step(run):
    return step_calls(run, 1.0, LENGTHS)


def test_sampling_calls_the_programs_of_a_real_rollout(run, step):
    (load_,) = sampling_loads(run.config)
    policy, params = tiny_policy()
    sampler = Sampler(policy.model, eos_ids=(-1,), pad_id=0, seed=0, capacity=run.capacity(load_))
    groups = choose_groups(load_, LENGTHS)
    requests = [Request((5,) * g.prompt, (i,), len(g.responses), g.responses) for i, g in enumerate(groups)]
    list(sampler.generate(params, requests, Sampling(256)))
    decoders = {(program[1], *program[0].columns) for program in sampler._programs if isinstance(program[0], Decoder)}
    prefills = {program[1:] for program in sampler._programs if not isinstance(program[0], Decoder)}
    assert set(step.calls["decode", "code"].shapes) == decoders and len(decoders) > 1
    assert set(step.calls["prefill", "code"].shapes) == prefills
    # A block's part is its steps by those of a whole one.
    assert step.calls["decode", "code"].count == pytest.approx(sampler.counters.steps / 8)


def test_learning_calls_the_programs_of_the_batches_that_are_made(run, step):
    groups = step.learned["code"]
    assert sorted(groups, key=lambda g: g.prompt) == sorted(LENGTHS["code"], key=lambda g: g.prompt)
    packing = run.config.code.packing
    batches = sample_batches(groups, 2, packing, 1)
    assert set(step.calls["gradient", "code"].shapes) == set(step.calls["score-ref", "code"].shapes) == set(batches)
    assert all(batch_shape(batch) == shape and (batch.segment_ids > 0).any() for shape, batch in batches.items())
    assert step.calls["update", "code"].shapes == {(): 2}


def test_a_block_that_is_measured_runs_all_of_its_steps_and_every_row_is_active(run):
    program = next(p for p in make_programs(run, one_device_mesh()) if str(p.name) == "decode code")
    compiled = program.lower().compile()
    _, block = compiled(*filled(program.arguments))
    assert block.steps == 8 and np.array_equal(block.count, [8] * 6) and np.isfinite(block.logprobs).all()


def test_a_phase_takes_its_calls_times_what_the_smallest_program_takes_that_holds_them():
    phase, calls = Phase("decode", "code"), Calls({(6, 4, 3): 2, (6, 2, 3): 0.5, (6, 2, 1): 4}, host=0.1185)
    measured = {
        ProgramName(phase): Measured(1.0, 0.5, 0),
        ProgramName(phase, (6, 2, 1)): Measured(0.25, 0.25, 0),
    }
    found = phase_forecast(phase, calls, measured)
    assert found.calls == 6.5
    assert found.seconds == pytest.approx(2.5 * 1.0 + 4 * 0.25 + 0.125)
    assert found.ratio == pytest.approx(3.5 / (2.5 * 0.5 + 4 * 0.25))


@pytest.mark.long
def test_the_command_measures_every_phase_here(capsys, tmp_path):
    file = tmp_path / "lengths.jsonl"
    (group, *_) = LENGTHS["code"]  # all alike, so that few programs are compiled
    line = {"role": "code", "prompt": group.prompt, "responses": group.responses}
    file.write_text(json.dumps(line))
    assert main(["plan", "micro/golden", "--calibrate", "--json", "--lengths", str(file), *SMALL]) == 0
    found = json.loads(capsys.readouterr().out)
    learning = ["score-old code", "score-ref code", "gradient code", "clear code", "update code"]
    assert list(found["phases"]) == ["weights code", "prefill code", "insert code", "decode code", *learning]
    assert all(phase["step_seconds"] > 0 for phase in found["phases"].values())
    assert all(phase["measured_to_expected"] is None for phase in found["phases"].values())  # no figures of a CPU
    assert found["expected_seconds"] == pytest.approx(sum(p["step_seconds"] for p in found["phases"].values()))


CORRECTED = ("rollout.block=128", "train.questions=32", "code.grpo.mini_batch_questions=32")


# --- plans that are corrected by what was measured, against plans that are not --------------------------


@pytest.fixture
def compiled(monkeypatch):
    """Every program fits, and should take a second."""

    def compile_programs(_config, _hardware, wanted, _watch):
        return {name: Compiled(1.0, 0, 0, 0, 0, 0, {}, {"matrix": 1.0}) for name in wanted}

    monkeypatch.setattr("codea1_jax.plan.plan.compile_programs", compile_programs)
    monkeypatch.setattr("codea1_jax.plan.compiled.compiler.check_compiler", lambda _hardware: None)


@pytest.fixture
def file(tmp_path):
    """What a run without suites measured: its code phases alone."""
    measured = {"prefill code": 2.0, "decode code": 3.0, "gradient code": 0.5}
    phases = {Phase.named(phase): Calibrated(1, 1.0, ratio) for phase, ratio in measured.items()}
    document = Calibration(phases, 0).as_document()
    written = tmp_path / "measured.json"
    written.write_text(json.dumps(document))
    return written


def planned(ratios=None):
    config = load(Config, "1.5b/a1_v5e", CORRECTED)
    return make_plan(config, find_hardware("v5e:4x4"), 0.25, lambda *_: None, ratios=ratios)


@pytest.mark.usefixtures("compiled")
def test_what_devices_do_is_corrected_by_phase_or_by_kind_and_the_host_is_not(file):
    plain, corrected = planned(), planned(read_calibration(file))
    expected = {"prefill": 2.0, "decode": 3.0, "gradient": 0.5}
    for before, after in zip(plain.rows, corrected.rows, strict=True):
        ratio = expected.get(before.phase.kind, 1.0)
        for resource, seconds in before.expected.items():
            assert after.expected[resource] == pytest.approx(seconds * (1 if resource == "host" else ratio))
    # Nothing can be measured that undercuts what the hardware allows.
    assert corrected.limit == plain.limit and corrected.floor == plain.floor


@pytest.mark.usefixtures("compiled")
def test_the_command_reads_what_the_command_wrote(file, capsys):
    command = ["plan", "1.5b/a1_v5e", *CORRECTED]
    assert main([*command, "--calibration", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["calibration"] == {"prefill code": 2.0, "decode code": 3.0, "gradient code": 0.5}
    plan = planned(read_calibration(file))
    assert document["fits"] is document["compiled"] is True
    assert document["expected_seconds"] == pytest.approx(plan.expected_seconds)
    assert document["floor_seconds"] == pytest.approx(plan.floor)
    assert document["limit_seconds"] == pytest.approx(plan.limit)
    assert document["phases"].keys() == {str(row.phase) for row in plan.rows}
    assert main([*command, "--calibration", str(file)]) == 0
    assert "corrected by what was measured on a device" in capsys.readouterr().out.replace("\n", " ")
    for other in (("--calibration", str(file)), ("--topology", "h100:8")):
        assert main(["plan", "micro/a1", "--calibrate", *other]) == 2
        assert "drop --topology and --calibration" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"phases": {"decode code": {"measured_to_expected": null}}}', "without published figures"),
        ('{"phases": {}}', "without published figures"),
        ('{"phases": ["decode code"]}', "not the JSON document of a calibration"),
        ("decode code 1.2", "not the JSON document of a calibration"),
    ],
)
def test_another_file_is_refused(tmp_path, text, problem):
    file = tmp_path / "measured.json"
    with pytest.raises(UserError, match="No such file"):
        read_calibration(file)
    file.write_text(text)
    with pytest.raises(UserError, match=problem):
        read_calibration(file)
