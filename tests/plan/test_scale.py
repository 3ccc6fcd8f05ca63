"""What more slices make of a step, over programs whose seconds are given: against closed forms."""

import json
from xml.etree import ElementTree

import pytest

from codea1_jax import cli
from codea1_jax.chips import find_hardware
from codea1_jax.config import Config, load
from codea1_jax.plan.arithmetic.lengths import draw_groups
from codea1_jax.plan.arithmetic.workload import sampling_loads
from codea1_jax.plan.compiled.compiler import Compiled
from codea1_jax.plan.forecast import scoring_seconds
from codea1_jax.plan.pictures import scale_picture, steps_picture, timeline_picture
from codea1_jax.plan.plan import make_plan
from codea1_jax.plan.planned import read_plans
from codea1_jax.plan.scale import scale

SETTINGS = ("rollout.block=128", "train.questions=32", "code.grpo.mini_batch_questions=32")
SECONDS = {
    **{"weights": 0.1, "prefill": 0.5, "insert": 0.0, "decode": 2.0, "evaluate": 3.0},
    **{"score-ref": 1.0, "gradient": 4.0, "clear": 0.0, "update": 0.25},
}
COPIES = [1, 2, 4, 64]


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Every program fits, and takes what SECONDS states for its phase."""

    def compile_programs(_config, _hardware, wanted, _watch):
        return {name: Compiled(1.0, 0, 0, 0, 0, 0, {}, {"matrix": SECONDS[name.phase.split()[0]]}) for name in wanted}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("codea1_jax.plan.plan.compile_programs", compile_programs)
        patched.setattr("codea1_jax.plan.compiled.compiler.check_compiler", lambda _hardware: None)
        yield


def planned(name, *overrides, hardware=None):
    config = load(Config, name, [*SETTINGS, *overrides])
    return make_plan(config, find_hardware(hardware or config.hardware), 0.25, lambda *_: None)


@pytest.fixture(scope="module")
def plan(compiled):
    """Of micro-batches of one longest sequence, so that a step has many."""
    rows = {"code": 8192, "test": 12_288}
    short = [f"{policy}.packing={{row_length: {n}, micro_batch_tokens: {n}}}" for policy, n in rows.items()]
    return planned("1.5b/a1_v5e", *short)


@pytest.fixture(scope="module")
def steps(plan):
    return scale(plan, COPIES)


def test_one_copy_is_the_plan_and_costs_what_it_costs(plan, steps):
    one = steps[0]
    assert one.step_seconds == pytest.approx(plan.expected_seconds)
    assert one.seconds["network"] == 0 and one.busy(one) == 1
    assert one.device_hours == pytest.approx(16 * plan.expected_seconds / 3600)


def test_copies_share_the_micro_batches_until_each_has_one_and_sum_their_gradients_once_per_update(plan, steps):
    batches = {row.phase.name: row.calls for row in plan.rows}
    one, two, _, many = steps
    least = 2 * sum(SECONDS[kind] for kind in ("score-ref", "gradient", "update"))  # a micro-batch of each policy
    assert least <= many.seconds["learning"] < least + SECONDS["gradient"]  # and what attention computes
    assert one.seconds["learning"] > two.seconds["learning"] > 0.45 * one.seconds["learning"] > least
    # Of 1,543,714,304 parameters in float32, whole on the 16 devices of a copy; over 25 Gbit/s, of which 3/4 are used.
    gradient = 4 * 1_543_714_304 / 16
    updates = batches["update code"] + batches["update test"]
    assert two.seconds["network"] == pytest.approx(updates * gradient / (0.75 * 3.125e9))
    assert many.seconds["network"] == pytest.approx(updates * 2 * 63 / 64 * gradient / (0.75 * 3.125e9))
    # Judging is shared out; scoring is not, and counts as every host's.
    judged = [step.seconds["judging"] * step.copies for step in steps]
    assert judged == pytest.approx([plan.judging - scoring_seconds(plan.step)] * len(steps))
    assert min(step.seconds["host"] for step in steps) > scoring_seconds(plan.step)


def test_no_number_of_copies_takes_less_than_the_longest_responses(plan, steps):
    drawn = [draw_groups(load, 0.25) for load in sampling_loads(plan.run.config)]
    longest = sum(max(max(group.responses) for group in groups) for groups in drawn)
    assert all(step.longest == pytest.approx(longest / 128 * SECONDS["decode"]) for step in steps)
    sampling = [step.seconds["sampling"] for step in steps]
    assert sampling == sorted(sampling, reverse=True)
    assert steps[-1].longest <= sampling[-1] < 1.2 * steps[-1].longest
    busy = [step.busy(steps[0]) for step in steps]
    assert busy == sorted(busy, reverse=True) and busy[-1] < 0.1
    assert steps[-1].lost_to(steps[0]) == "sampling"


def test_the_longest_responses_are_decoded_by_the_programs_of_fewest_rows(monkeypatch):
    def compile_programs(_config, _hardware, wanted, _watch):
        def seconds(name):
            return SECONDS[name.phase.split()[0]] / (4 if name.shape else 1)

        return {name: Compiled(1.0, 0, 0, 0, 0, 0, {}, {"matrix": seconds(name)}) for name in wanted}

    monkeypatch.setattr("codea1_jax.plan.plan.compile_programs", compile_programs)
    plan = planned("1.5b/a1_v5e")
    decoding = [name for name in plan.compiled if name.phase.startswith("decode")]
    assert [(name.phase, name.shape[:1]) for name in decoding] == [
        *(("decode code", ()), ("decode test", ()), ("decode test", (32,)))  # 16 and 128 rows on a chip
    ]
    (one,) = scale(plan, [1])
    code, test = (
        max(max(group.responses) for group in draw_groups(load, 0.25)) for load in sampling_loads(plan.run.config)
    )
    assert one.longest == pytest.approx((code + test / 4) / 128 * SECONDS["decode"])


def test_gpus_of_one_node_need_no_network():
    one = "h100:1", "mesh.replica=1"
    plan = planned("1.5b/a1_h100x1", one[1], hardware=one[0])
    _, eight, sixteen = scale(plan, [1, 8, 16])
    per_byte = [step.seconds["network"] / (2 * (step.copies - 1) / step.copies) for step in (eight, sixteen)]
    # NVLink's 450 GB/s, then an eighth of a node's 1,000 Gbit/s.
    assert per_byte[1] / per_byte[0] == pytest.approx(450 / 15.625)


@pytest.mark.long
def test_the_command_says_where_it_stops_and_draws_it(tmp_path, capsys):
    picture = tmp_path / "scale.svg"
    command = ["plan", "1.5b/a1_v5e", *SETTINGS, "--scale", "4,64"]
    assert cli.main([*command, "--picture", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "longest responses take" in out and "from 4 copies on devices are less than half as busy" in out
    assert cli.main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [step["copies"] for step in document["scale"]] == [1, 4, 64]
    assert document["scale"][0]["expected_seconds"] == pytest.approx(document["expected_seconds"])
    bars = ElementTree.parse(picture).findall(".//{*}rect")
    assert len(bars) == 1 + 5 + 3 * 5 + 3 + 3  # the ground, the legend, parts of three steps, two panels of single bars
    assert cli.main([*command, "--calibrate"]) == 2
    assert "not allowed with" in capsys.readouterr().err
    assert cli.main([*command, "--scale", "1,0"]) == 2
    assert "1,0 does not list counts of at least 1" in capsys.readouterr().err
    assert cli.main(["plan", "1.5b/a1_v5e", "--picture", "a.svg", "--search"]) == 2
    assert "--picture draws a plan" in capsys.readouterr().err


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
    drawn = ElementTree.fromstring(timeline_picture(plan, "a <title>"))
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


def test_a_scaled_picture_is_the_same_for_the_same_figures(steps):
    assert scale_picture(steps, "a <title>") == scale_picture(steps, "a <title>")
    assert "a &lt;title&gt;" in scale_picture(steps, "a <title>")
