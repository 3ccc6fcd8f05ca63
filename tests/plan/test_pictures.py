"""Pictures of plans, over programs whose seconds are given."""

from xml.etree import ElementTree

import pytest

from codea1_jax import cli
from codea1_jax.config import Config, load
from codea1_jax.devices.chips import find_hardware
from codea1_jax.plan.compiled.compiler import Compiled
from codea1_jax.plan.pictures import steps_picture, timeline_picture
from codea1_jax.plan.plan import make_plan
from codea1_jax.plan.planned import read_plans

SETTINGS = ("rollout.block=128", "train.questions=32", "code.grpo.mini_batch_questions=32")
SECONDS = {
    **{"weights": 0.1, "prefill": 0.5, "insert": 0.0, "decode": 2.0, "evaluate": 3.0},
    **{"score-ref": 1.0, "gradient": 4.0, "clear": 0.0, "update": 0.25},
}


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Every program fits, and takes what SECONDS states for its phase."""

    def compile_programs(_config, _hardware, wanted, _watch):
        return {name: Compiled(1.0, 0, 0, 0, 0, 0, {}, {"matrix": SECONDS[name.phase.split()[0]]}) for name in wanted}

    monkeypatch.setattr("codea1_jax.plan.plan.compile_programs", compile_programs)
    monkeypatch.setattr("codea1_jax.plan.compiled.compiler.check_compiler", lambda _hardware: None)


@pytest.fixture
def plan():
    """Of micro-batches of one longest sequence, so that a step has many."""
    rows = {"code": 8192, "test": 12_288}
    short = [f"{policy}.packing={{row_length: {n}, micro_batch_tokens: {n}}}" for policy, n in rows.items()]
    config = load(Config, "1.5b/a1_v5e", [*SETTINGS, *short])
    return make_plan(config, find_hardware(config.hardware), 0.25, lambda *_: None)


def test_a_picture_has_a_bar_of_the_same_length_for_every_plan():
    plans = read_plans().plans
    bars = ElementTree.fromstring(steps_picture(plans)).findall(".//{*}rect")
    widths = {}
    for bar in bars:
        if bar.get("height") == "16":
            widths[bar.get("y")] = widths.get(bar.get("y"), 0.0) + float(bar.get("width"))
    assert len(widths) == len(plans)
    assert all(width == pytest.approx(520, rel=0.02) for width in widths.values())


def test_the_timeline_of_a_plan_has_what_a_step_does_one_after_the_other(plan):
    text = timeline_picture(plan, "a <title>")
    assert "a &lt;title&gt;" in text
    drawn = ElementTree.fromstring(text)
    bars = [bar for bar in drawn.findall(".//{*}rect") if bar.get("height") == "16"]
    ends, seconds = [], {}
    for bar in bars:
        left, width = float(bar.get("x")), float(bar.get("width"))
        assert not ends or left == pytest.approx(ends[-1], abs=0.2)  # pixels, as they are rounded
        ends.append(left + width)
        seconds[bar.get("y")] = seconds.get(bar.get("y"), 0.0) + width / 520 * plan.expected_seconds
    assert ends[-1] == pytest.approx(130 + 520, abs=0.2)
    expected = {row.phase.name: row.expected_seconds for row in plan.rows}

    def taken(*phases):
        return sum(expected[phase] for phase in phases)

    rows = [
        taken("weights code", "prefill code", "insert code", "decode code"),
        taken("weights test", "prefill test", "insert test", "decode test"),
        plan.judging,
        taken("score-ref code", "gradient code", "clear code", "update code"),
        taken("score-ref test", "gradient test", "clear test", "update test"),
    ]
    pixel = plan.expected_seconds / 520
    assert list(seconds.values()) == pytest.approx(rows, abs=pixel)
    assert sum(rows) == pytest.approx(plan.expected_seconds)


def test_a_search_or_a_calibration_is_no_plan_to_draw(capsys):
    for other in ("--search", "--calibrate"):
        assert cli.main(["plan", "1.5b/a1_v5e", "--picture", "a.svg", other]) == 2
        assert "--picture draws a plan" in capsys.readouterr().err
