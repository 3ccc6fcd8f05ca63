"""The plans that are shipped: of the presets as they are, in both documents the same."""

import re

import pytest
from tiny_run import ROOT

from codea1_jax.common.chips import GIB, find_hardware
from codea1_jax.config import Config, load, preset_names
from codea1_jax.plan.memory import resident
from codea1_jax.plan.planned import Planned, Plans, read_plans, write_plans
from codea1_jax.plan.planned_run import make_planned_run
from codea1_jax.plan.table import COLUMNS, markdown
from configs import hardware_names


def test_every_preset_for_some_hardware_has_hours_and_every_plan_is_of_its_hardware():
    plans = read_plans()
    assert plans.hours.keys() == {name for name in preset_names() if load(Config, name).hardware is not None}
    for name, plan in plans.plans.items():
        hardware = find_hardware(load(Config, name).hardware)
        assert plan.hardware == hardware.name, name
        assert plan.fits and plan.memory <= plan.available == round(hardware.chip.memory / GIB, 2), name
        assert plan.memory >= resident(make_planned_run(load(Config, name), hardware)) / GIB, name
        # The paper's 9,688 questions, 256 a step, three times; evaluations and the start are expected besides.
        of_steps = [111 * seconds / 3600 for seconds in (plan.seconds, plan.expected)]
        least, expected = plans.hours[name]
        assert least == pytest.approx(of_steps[0], rel=0.01, abs=0.06), name
        assert 1 / 6 < expected - of_steps[1] < 0.25 * of_steps[1] + 1 / 6, name
        assert plan.seconds < plan.expected, name
    assert "libtpu" in plans.compilers and "jax-cuda12-pjrt" in plans.compilers


def test_methods_take_the_hours_of_what_they_compute():
    hours = read_plans().hours
    for model in ("1.5b", "3b", "7b"):
        for kind in (kind for kind in hardware_names() if f"{model}/a1_{kind}" in hours):
            for least_or_expected in (0, 1):
                methods = ("base", "sft", "golden", "a1", "a1_alpha0")
                took = {name: hours[f"{model}/{name}_{kind}"][least_or_expected] for name in methods}
                assert took["base"] < took["sft"] < took["golden"] < took["a1"] == took["a1_alpha0"], (model, kind)


def test_the_document_says_what_is_shipped():
    document = (ROOT / "docs" / "plan.md").read_text()
    assert markdown(read_plans().plans) in document


def test_the_readme_s_memory_is_that_of_the_plans():
    head, _, *rows = re.findall(
        r"^\|.*\|$", (ROOT / "README.md").read_text().partition("GiB per chip")[2], re.MULTILINE
    )
    kinds = [cell.split(":")[0].strip() for cell in head.split("|")[2:-1]]
    plans = read_plans().plans
    for row in rows:
        model, *cells = (cell.strip() for cell in row.split("|")[1:-1])
        for kind, cell in zip(kinds, cells, strict=True):
            plan = plans[f"{model.lower()}/a1_{kind}"]
            assert cell == f"{plan.memory:.1f} on {plan.hardware.partition(':')[2]}"
    assert (len(rows), kinds) == (3, ["v5e", "v5p", "v6e", "h100", "h200"])


def test_the_gpu_guide_s_times_of_few_cards_are_those_of_the_plans():
    shipped = read_plans()
    rows = re.findall(
        r"^\| `(\S+)` \| (.*) \| (\d+) min \| (\d+) h \|$", (ROOT / "docs" / "gpu.md").read_text(), re.MULTILINE
    )
    assert len(rows) == 10
    for name, _, minutes, hours in rows:
        assert minutes == f"{shipped.plans[name].expected / 60:.0f}", name
        assert hours == f"{shipped.hours[name][1]:.0f}", name


def test_plans_are_read_as_they_were_written(tmp_path):
    plan = Planned("v5e:2x2", False, 1.25, 15.75, "decode code", 3.5, 4.5, 1000.0, 0.375)
    plans = Plans("libtpu 1", {"mine": plan}, {"mine": [0.5, 0.75]})
    write_plans(plans, tmp_path / "planned.yaml")
    assert read_plans(tmp_path / "planned.yaml") == plans
    line = "| mine | v5e:2x2 | no | 1.25 | 15.75 | decode code | 3.5 | 4.5 | 1000 | 37.5% |"
    assert markdown(plans.plans).splitlines() == [f"| {' | '.join(COLUMNS)} |", f"| {' | '.join(['---'] * 10)} |", line]
