"""`codea1 init`: what it reads, writes and refuses; and its directory in place of a preset and of a run."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tiny_model import SHAPE
from tiny_run import ROOT

from codea1_jax import cli
from codea1_jax.config import Config, load
from codea1_jax.models.policy import write_random_model
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.run.rundir import find_run, run_folder
from data_pipeline import micro, problem_files


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that may be asked as a chat."""
    tokenizer = micro_tokenizer(micro.words())
    path = tmp_path_factory.mktemp("model") / "tiny"
    write_random_model(path, replace(SHAPE, vocab_size=tokenizer.vocab_size), tokenizer)
    return path


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with 24 questions, one of which has a reference that fails its tests."""
    problems = micro.problems("train", 24, 0)
    wrong = replace(problems[-1], id="wrong", solution="def f(*xs):\n    return None")
    problem_files.write(tmp_path / "own.jsonl", [*problems, wrong])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_configuration_is_written_that_is_a_preset_and_needs_nothing_more(model, here, capsys):
    assert cli.main(["init", "mine", "--data", "own.jsonl", "--model", str(model), "--topology", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert "refused: wrong: the solution fails tests" in err
    assert out.startswith("mine/config.yaml: 20 questions to train on, 4 held out\nforecast without compiling, ")
    assert "codea1 train mine method.name=sft" in out and "next: codea1 doctor mine && codea1 train mine" in out
    config = load(Config, "mine")
    assert (config.data.source, config.run.directory) == ("own.jsonl", "mine/run")
    assert cli.main(["doctor", "mine"]) == 0  # the wrong reference is among the questions that it counts
    found = capsys.readouterr().out
    assert "21 questions to train on, 4 held out; 50 steps of 4" in found and "advice" not in found
    assert cli.main(["train", "mine", "--dry-run"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == config.model_dump(mode="json")
    card = ("--data", "own.jsonl", "--model", str(model), "--topology", "rtx-4090")
    assert cli.main(["init", "card", *card]) == 0
    assert load(Config, "card").hardware == "rtx-4090:1"
    assert cli.main(["init", "mine", "--data", "own.jsonl"]) == 2
    assert "mine/config.yaml is there already" in capsys.readouterr().err
    for place in ("own.jsonl", "own.jsonl/below", "gs://bucket/mine"):
        assert cli.main(["init", place, "--data", "own.jsonl"]) == 2
        assert "cannot be a directory of this machine; choose another" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (("--topology", "abacus"), "abacus is not known hardware"),
        (("--data", "nothing.jsonl"), "--data: "),
        (("--model", "nobody/here"), "nobody/here: no such directory, nor available from the Hub: "),
    ],
)
def test_a_refusal_is_one_line(options, refusal, model, here, capsys):
    given = {"--data": "own.jsonl", "--model": str(model), "--topology": "cpu"} | {options[0]: options[1]}
    assert cli.main(["init", "mine", *(word for pair in given.items() for word in pair)]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"codea1: {refusal}")
    assert not (here / "mine").exists()


def test_a_model_without_a_chat_template_is_asked_in_plain_text(here, capsys):
    tokenizer = micro_tokenizer(micro.words())
    tokenizer.hf.chat_template = None
    write_random_model(here / "plain", replace(SHAPE, vocab_size=tokenizer.vocab_size), tokenizer)
    assert cli.main(["init", "mine", "--data", "own.jsonl", "--model", "plain", "--topology", "cpu"]) == 0
    assert load(Config, "mine").prompts.style == "plain"
    assert cli.main(["doctor", "mine"]) == 0


def test_a_run_is_found_by_the_directory_that_names_it(here):
    (here / "mine" / "run").mkdir(parents=True)
    (here / "mine" / "config.yaml").write_text("run: {directory: mine/run}")
    assert run_folder(here / "mine") == here / "mine" / "run"  # where it will be
    (here / "mine" / "run" / "config.yaml").write_text(json.dumps({"checkpoint": {"directory": None}}))
    assert run_folder(here / "mine") == here / "mine" / "run"
    for name, step in (("mine", None), ("mine@40", 40), ("mine/run", None)):
        run = find_run(name)
        assert run is not None and (run.checkpoints, run.step) == ("mine/run/checkpoints", step)


SHORT = (
    *("train.steps=2", "eval.every=1", "eval.samples=2", "eval.suites=1", "data.heldout_problems=2"),
    "sandbox.workers=1",
    *("rollout.samples=2", "rollout.suites=2", "rollout.rows=16", "rollout.code_tokens=16", "rollout.test_tokens=16"),
)


def shortened(words: Sequence[str], model: Path) -> list[str]:
    """A command of the page, as a test can wait for it: a tiny model, two steps a run, a program a question."""
    named = [str(model) if word.startswith("HuggingFaceTB/") else word for word in words if word != "--follow"]
    if words[1] == "train":
        return [*(word for word in named if word != "train.steps=24"), *SHORT]
    return [*named, "--n", "1", "--max-tokens", "8"] if words[1] == "eval" else named


@pytest.mark.long
def test_the_page_on_your_own_data_does_what_it_says(model, here, capsys):
    page = (ROOT / "docs" / "your-own-data.md").read_text()
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ran = set()
    for words in map(shlex.split, "".join(blocks).splitlines()):
        if words[:2] == ["python", "-c"]:
            exec(words[2])
        elif words[:2] != ["codea1", "push"]:  # which needs the Hub
            assert cli.main(shortened(words, model)[1:]) == 0, capsys.readouterr().err
            ran.add(words[1])
    assert ran == {"data", "init", "doctor", "train", "report", "eval", "checkpoint", "convert"}
    assert (here / "mine" / "run" / "report.html").exists() and (here / "mine" / "from-sft" / "summary.json").exists()
    assert (here / "exported-code" / "model.safetensors").exists()
