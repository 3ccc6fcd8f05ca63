"""Every method of the tables trains: a few steps of the smallest run, by its micro preset."""

import re
from pathlib import Path

import numpy as np
import pytest
from tiny_run import SETTINGS, saved

from codea1_jax import cli
from codea1_jax.common.files import read_lines
from data_pipeline import micro, problem_files

STEPS = 2
# The policies that learn. The other ablations of a1 change numbers, and whether the mistake book is kept.
LEARNING = {
    "a1": {"code", "test"},
    "golden": {"code"},
    "self_play": {"code"},
    "a1_no_white_box": {"code", "test"},
    "a1_no_answer_prediction": {"code", "test"},
}


def train(directory: Path, method: str, *more: str) -> list[dict]:
    """What the run logged of its steps."""
    settings = (*SETTINGS, f"train.steps={STEPS}", "eval.every=0", "run.seed=0", f"run.directory={directory}")
    assert cli.main(["train", f"micro/{method}", *settings, *more]) == 0
    return [line for line in read_lines(directory / "metrics.jsonl") if line["kind"] == "train"]


def weights(directory: Path) -> dict[str, list[np.ndarray]]:
    """Every policy's parameters, from the run's last checkpoint."""
    arrays, _ = saved(directory / "checkpoints", STEPS)
    found: dict[str, list[np.ndarray]] = {}
    for name, array in arrays.items():
        policy, part = re.findall(r"\w+", name)[:2]
        if part == "params":
            found.setdefault(policy, []).append(array)
    return found


def failed_questions(directory: Path) -> set[str]:
    """The questions of which a program that executes failed a test that a Test LLM wrote."""
    files = sorted((directory / "rollouts").iterdir())
    return {
        record["question_id"]
        for file in files
        for record in read_lines(file)
        for program in record["programs"]
        for suite in program["suites"]
        if program["valid"] and any(test["verdict"] != "passed" for test in suite["tests"])
    }


QUICK = "golden", "self_play"  # the run that all tests share is a1's


@pytest.mark.parametrize("method", [pytest.param(m, marks=() if m in QUICK else pytest.mark.long) for m in LEARNING])
def test_every_method_trains_its_policies(method, tmp_path):
    lines = train(tmp_path, method)
    assert [line["step"] for line in lines] == [1, 2]
    learned = {name.split("/")[0] for line in lines for name, value in line.items() if name.endswith("grad_norm")}
    assert learned == LEARNING[method]
    arrays, document = saved(tmp_path / "checkpoints", STEPS)
    assert {name.split("'")[1] for name in arrays} == LEARNING[method]  # and no reference: kl_coef is 0
    # No question was met twice, so its page holds what its programs failed, and nothing was taken out.
    assert {question for question, page in document["book"].items() if page} == failed_questions(tmp_path)


@pytest.mark.long
def test_a_test_llm_goes_on_where_the_supervised_one_ended_and_golden_training_takes_the_tests_of_another(tmp_path):
    """As the cold start and the static tests of the tables do."""
    sft, cold, static = (tmp_path / name for name in ("sft", "cold", "static"))
    assert [{name for name in line if name.endswith("grad_norm")} for line in train(sft, "sft")] == [
        {"test/grad_norm"}
    ] * 2
    rates = ("code.optimizer.learning_rate=1.0e-12", "test.optimizer.learning_rate=1.0e-12")
    train(cold, "a1_from_sft", f"test.start={sft}", "test.grpo.kl_coef=0.001", *rates)
    supervised, trained = (weights(directory) for directory in (sft, cold))
    assert trained.keys() == {"code", "test"} and supervised.keys() == {"test"}
    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(trained["test"], supervised["test"], strict=True))
    assert not all(np.allclose(a, b, atol=1e-4) for a, b in zip(trained["code"], supervised["test"], strict=True))
    problems = micro.problems("train", 6, 0)
    problem_files.write(tmp_path / "problems.jsonl", problems)
    train(static, "static_a1", f"data.golden_tests={tmp_path / 'problems.jsonl'}")
