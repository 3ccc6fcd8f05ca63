"""Benchmarks are scored while training, and the trained run is scored by `codea1 eval code`."""

import json

import jax
import numpy as np
import pytest
from tiny_run import train_arguments

from codea1_jax import cli
from codea1_jax.common.errors import UserError
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.training.convert import open_policy
from data_pipeline import micro


@pytest.mark.long
def test_evaluations_of_a_run_score_the_benchmarks_and_name_what_they_leave_out(tmp_path, capsys):
    problems = micro.problems("heldout", 3, seed=0)
    rows = [
        {"id": p.id, "question": p.question, "solution": p.solution, "entry_point": p.entry_point}
        | {"tests": list(p.golden_tests)}
        for p in problems
    ]
    rows[2] |= {"id": "unsound", "tests": [f"assert {problems[2].golden_tests[0][7:].split(' == ')[0]} == 'no'"]}
    benchmark = tmp_path / "benchmark.jsonl"
    benchmark.write_text("\n".join(map(json.dumps, rows)))
    settings = (f"eval.datasets=['{benchmark}']", "train.steps=2", "eval.every=1")
    kept = ("checkpoint.every=5", "checkpoint.keep_last=1", "checkpoint.keep_every=1")
    assert cli.main(train_arguments(tmp_path / "run", *settings, *kept)) == 0
    capsys.readouterr()
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    scored = {line["step"]: line for line in lines if line["kind"] == "eval"}
    assert scored.keys() == {0, 1, 2}
    for line in scored.values():
        assert 0 <= line["eval/problems/avg_at_n"] <= 100
        assert line["eval/problems/pass_at_1"] == line["eval/problems/avg_at_n"]
        assert line["eval/problems/avg_at_n"] == pytest.approx(line["eval/problems/avg_at_n_sound"] * 2 / 3)
        assert "eval/avg_at_n" in line  # the held-out questions are scored as before
    refused = [json.loads(line) for line in (tmp_path / "run" / "refused.jsonl").read_text().splitlines()]
    assert [(r["id"], r["reason"][:19]) for r in refused] == [("unsound", "its own solution fa")]

    options = ("--n", "2", "--max-tokens", "32", "--temperature", "1", "--top-p", "1", "--workers", "1")
    evaluate = ("eval", "code", "--data", str(benchmark), "--out", str(tmp_path / "evaluation"), "--json", *options)
    assert cli.main([*evaluate, "--model", f"{tmp_path / 'run'}@1"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["benchmarks"]["problems"]["problems"] == 3
    assert results["benchmarks"]["problems"]["sound"] == 2
    assert list(results["unsound"]) == ["unsound"]
    with pytest.raises(UserError, match=r"run@3: the run has no checkpoint of that step; it has \[1, 2\]"):
        open_policy(f"{tmp_path / 'run'}@3", "code")

    def first_array(name: str) -> np.ndarray:
        source = open_policy(name, "code")
        return np.asarray(jax.tree.leaves(source.read(source.policy.model, one_device_mesh()))[0])

    newest, earlier = first_array(str(tmp_path / "run")), first_array(f"{tmp_path / 'run'}@1")
    assert (newest == first_array(f"{tmp_path / 'run'}@2")).all() and (newest != earlier).any()
