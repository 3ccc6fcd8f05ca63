"""`codea1 checkpoint`: what a run has saved, told without touching it."""

import json

import jax.numpy as jnp
import pytest

from codea1_jax import cli
from codea1_jax.config import Section
from codea1_jax.run.rundir import RunDir


@pytest.fixture
def run_path(tmp_path):
    with RunDir(tmp_path / "run", Section(), resume=False) as run:
        for step in (2, 4):
            run.log("eval", step, {"eval/avg_at_n": 10.0 * step, "seconds/eval": 1.0})
            arrays = {"code": {"params": {"w": jnp.zeros((2, 3)), "b": jnp.zeros(3, jnp.bfloat16)}}}
            run.save(step, arrays, {"book": {"q": [["f(1)", "2", 1]]}, "data": {"next": step}, "step": step})
    return tmp_path / "run"


def output(capsys, *arguments):
    assert cli.main(["checkpoint", *arguments]) == 0
    return capsys.readouterr().out


def test_steps_are_listed_with_their_evaluations(run_path, capsys):
    assert output(capsys, "ls", str(run_path)).split("\n")[:2] == [
        "       2  avg_at_n 20.00",
        "       4  avg_at_n 40.00",
    ]
    rows = json.loads(output(capsys, "ls", str(run_path / "checkpoints"), "--json"))
    assert rows == [{"step": 2, "eval/avg_at_n": 20.0}, {"step": 4, "eval/avg_at_n": 40.0}]


def test_a_step_is_shown(run_path, capsys):
    shown = json.loads(output(capsys, "show", str(run_path), "--step", "2", "--json"))
    assert shown["arrays"] == {"code/params": {"arrays": 2, "elements": 9, "bytes": 30}}
    assert (shown["step"], shown["book"], shown["data"]) == (2, {"questions": 1, "tests": 1}, {"next": 2})
    text = output(capsys, "show", str(run_path))
    assert "step 4" in text and "code/params: 9 numbers in 2 arrays" in text and "1 test of 1 question" in text


def test_looking_does_not_clean_up_what_a_running_save_has_written(run_path, capsys):
    unfinished = run_path / "checkpoints" / "6.orbax-checkpoint-tmp"
    unfinished.mkdir()
    assert json.loads(output(capsys, "ls", str(run_path), "--json"))[-1]["step"] == 4
    assert unfinished.exists()


@pytest.mark.parametrize(("place", "line"), [("nowhere", "no such run"), (".", "nothing is saved there")])
def test_a_place_without_checkpoints_is_one_line(place, line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["checkpoint", "ls", place]) == 2
    assert capsys.readouterr().err == f"codea1: {place}: {line}\n"
