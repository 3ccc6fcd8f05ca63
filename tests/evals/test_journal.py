"""An evaluation's folder: one evaluation, resumable after any interruption."""

import pytest

from codea1_jax.common.errors import UserError
from codea1_jax.evals.journal import Journal

CONFIG = {"command": "eval code", "data": "d", "n": 4}


def test_lines_survive_and_a_line_cut_short_is_taken_off(tmp_path):
    journal = Journal(tmp_path / "out", CONFIG)
    journal.add("a.jsonl", [{"x": 1}, {"x": 2}])
    with (tmp_path / "out" / "a.jsonl").open("a") as file:
        file.write('{"x": 3')
    again = Journal(tmp_path / "out", CONFIG)
    assert again.lines("a.jsonl") == [{"x": 1}, {"x": 2}]
    again.add("a.jsonl", [{"x": 4}])
    assert again.lines("a.jsonl") == [{"x": 1}, {"x": 2}, {"x": 4}]
    again.rewrite("a.jsonl", [{"x": 5}])
    assert again.lines("a.jsonl") == [{"x": 5}]
    assert again.lines("none.jsonl") == []


def test_a_folder_of_another_evaluation_or_of_anything_else_is_refused(tmp_path):
    Journal(tmp_path / "out", CONFIG)
    with pytest.raises(UserError, match=r".* holds an evaluation with n=4, not 8; choose another folder"):
        Journal(tmp_path / "out", CONFIG | {"n": 8})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(UserError, match="is not empty and holds no evaluation"):
        Journal(tmp_path / "mine", CONFIG)
