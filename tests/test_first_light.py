"""scripts/first_light.py: which wheels a machine lacks, and the table that a first run leaves."""

import json

import pytest

from scripts.first_light import Package, Stage, chosen, forecast, table

MICRO = [
    {"kind": "start", "step": 0, "seconds/before_training": 9.0},
    {"kind": "train", "step": 1, "seconds/generate_code": 20.0, "seconds/step": 120.4},
    {"kind": "train", "step": 2, "seconds/generate_code": 0.125, "seconds/step": 1.5},
]
FORECAST = {"hardware": "h100:1", "seconds": {"generate_code": 0.25, "step": 1.0}}
SELFTEST = {
    "preset": "1.5b/a1_h100x1",
    "rows": [
        {"name": "judge", "passed": False, "expected": "a|b", "measured": "NOT so"},
        {"name": "prefill code", "passed": None, "expected": "no forecast", "measured": "2 s"},
    ],
}
STAGES = [Stage("install", 0, 12, 90), Stage("selftest", 1, 150, 200), Stage("1.5b", 137, 400, 400)]


def cells(markdown: str, first: str) -> list[str]:
    """The other cells of the one row that begins with this."""
    [row] = [line for line in markdown.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in row.strip("|").split(" | ")][1:]


def test_the_last_runs_steps_stand_next_to_their_forecast():
    written = table("a card", STAGES, "ok   judge", {"1.5b": MICRO}, FORECAST)
    assert cells(written, "part") == ["step 1", "step 2", "forecast", "last / forecast"]
    assert cells(written, "generate_code") == ["20", "0.125", "0.25", "0.5"]
    assert cells(written, "step") == ["120", "1.5", "1", "1.5"]
    assert written.startswith("a card\n")
    assert "```text\nok   judge\n```" in written


def test_a_run_without_a_forecast_and_one_without_a_step_are_in_the_table():
    written = table("", STAGES, SELFTEST, {"micro/a1": MICRO, "1.5b": []}, FORECAST)
    assert cells(written, "step") == ["120", "1.5"]
    assert "No step was made." in written


def test_how_each_stage_and_check_ended():
    written = table("", STAGES, SELFTEST, {"1.5b": MICRO}, FORECAST)
    assert cells(written, "install") == ["passed", "12", "90"]
    assert cells(written, "selftest") == ["**failed (1)**", "150", "200"]
    assert cells(written, "1.5b") == ["**out of time**", "400", "400"]
    assert cells(written, "judge") == ["**no**", "NOT so", r"a\|b"]
    assert cells(written, "prefill code") == ["", "2 s", "no forecast"]


def test_a_forecast_adds_the_phases_of_what_a_run_times():
    phases = {
        "prefill code": {"host": 1.0, "matrix": 2.0},
        "decode code": {"cache": 4.0},
        "evaluate code": {"host": 8.0},
    }
    plan = {"phases": {name: {"step_seconds_expected": seconds} for name, seconds in phases.items()}}
    found = forecast(plan | {"topology": "h100:1", "judging_seconds_expected": 0.5})
    seconds = {"generate_code": 7.0, "generate_tests": 0.0, "update_code": 0.0, "update_test": 0.0, "judge_wait": 0.5}
    assert json.loads(json.dumps(found)) == {"hardware": "h100:1", "seconds": {**seconds, "step": 7.5}}


CARRIED = {"ours": Package("1", ("a>=2", 'c>=9; extra == "x"', "numpy")), "a": Package("2", ()), "c": Package("1", ())}


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({}, ["a", "c", "ours"]),
        ({"a": Package("2.1", ()), "c": Package("1", ())}, ["ours"]),
        ({"a": Package("1", ()), "c": Package("1", ())}, ["a", "ours"]),  # too old
        ({"a": Package("1", ()), "c": Package("1", ("a<2",))}, ["a", "c", "ours"]),  # c asks for the old one
        ({"a": Package("2", ("c<1",)), "c": Package("1", ())}, ["a", "c", "ours"]),  # they did not suit each other
    ],
)
def test_wheels_are_installed_of_what_is_missing_or_does_not_suit(installed, expected):
    assert chosen(CARRIED, installed) == expected
