"""A plan that is corrected by what was measured: against the plan that is not."""

import json

import pytest

from codea1_jax import cli
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load
from codea1_jax.devices.chips import find_hardware
from codea1_jax.plan.arithmetic.workload import Phase
from codea1_jax.plan.calibrate import Calibrated, Calibration, read_calibration
from codea1_jax.plan.compiled.compiler import Compiled
from codea1_jax.plan.plan import make_plan

SETTINGS = ("rollout.block=128", "train.questions=32", "code.grpo.mini_batch_questions=32")


@pytest.fixture(autouse=True)
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
    config = load(Config, "1.5b/a1_v5e", SETTINGS)
    return make_plan(config, find_hardware("v5e:4x4"), 0.25, lambda *_: None, ratios=ratios)


def test_what_devices_do_is_corrected_by_phase_or_by_kind_and_the_host_is_not(file):
    plain, corrected = planned(), planned(read_calibration(file))
    expected = {"prefill": 2.0, "decode": 3.0, "gradient": 0.5}
    for before, after in zip(plain.rows, corrected.rows, strict=True):
        ratio = expected.get(before.phase.kind, 1.0)
        for resource, seconds in before.expected.items():
            assert after.expected[resource] == pytest.approx(seconds * (1 if resource == "host" else ratio))
    # Nothing can be measured that undercuts what the hardware allows.
    assert corrected.limit == plain.limit and corrected.floor == plain.floor


def test_the_command_reads_what_the_command_wrote(file, capsys):
    command = ["plan", "1.5b/a1_v5e", *SETTINGS]
    assert cli.main([*command, "--calibration", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["calibration"] == {"prefill code": 2.0, "decode code": 3.0, "gradient code": 0.5}
    plan = planned(read_calibration(file))
    assert document["fits"] is document["compiled"] is True
    assert document["expected_seconds"] == pytest.approx(plan.expected_seconds)
    assert document["floor_seconds"] == pytest.approx(plan.floor)
    assert document["limit_seconds"] == pytest.approx(plan.limit)
    assert document["phases"].keys() == {str(row.phase) for row in plan.rows}
    assert cli.main([*command, "--calibration", str(file)]) == 0
    assert "corrected by what was measured on a device" in capsys.readouterr().out.replace("\n", " ")
    assert cli.main(["plan", "micro/a1", "--calibrate", "--calibration", str(file)]) == 2
    assert "pass one of them" in capsys.readouterr().err


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
