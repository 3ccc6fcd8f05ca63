"""`codea1 push`: what arrives at the Hub is what was made, byte for byte, and is a model, and a dataset, again."""

import json
import re
import shutil
from dataclasses import replace

import jax
import numpy as np
import pyarrow.parquet
import pytest
import yaml
from hub_emulator import TOKEN, running_hub
from huggingface_hub import ModelCard
from tiny_run import first_run, refused, start_codea1
from transformers import AutoConfig, AutoTokenizer

from codea1_jax.cli import main, push
from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, load
from codea1_jax.models.policy import pretrained_policy
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.models.tokenizer import load_tokenizer
from codea1_jax.models.weights import load_params
from codea1_jax.run.publish import cards, hub
from codea1_jax.training.convert import open_policy


def test_both_policies_arrive_as_models_that_transformers_and_we_load(arrived, tmp_path):
    for role in ("code", "test"):
        folder = arrived.save("model", f"me/mine-{role}", tmp_path / role)
        assert arrived.private[f"me/mine-{role}"]
        source, loaded = open_policy(str(first_run()), role), pretrained_policy(folder)
        kept = source.read(source.policy.model, one_device_mesh())
        jax.tree.map(np.testing.assert_array_equal, load_params(folder, loaded.model), kept)
        assert AutoConfig.from_pretrained(folder).hidden_size == 32
        assert AutoTokenizer.from_pretrained(folder).decode(loaded.tokenizer.encode("return 1")) == "return 1"
        settings = yaml.safe_load((folder / "training_config.yaml").read_text())
        assert settings["train"]["questions"] == 2 and not {"run", "sandbox", "checkpoint"} & settings.keys()


def test_the_card_has_the_licence_and_the_runs_own_figures(arrived):
    text = arrived.repos["model", "me/mine-test"]["README.md"].decode()
    assert ModelCard(text).data.to_dict()["license"] == "apache-2.0"
    last = [line for line in read_lines(first_run() / "metrics.jsonl") if line["kind"] == "eval"][-1]
    value, low, high = (last[f"eval/test_validity{end}"] for end in ("", "_low", "_high"))
    assert f"{value:.1f} ({low:.1f} to {high:.1f}) |" in text
    assert "--model me/mine-code --test-model me/mine-test" in text and "vllm serve me/mine-test" in text


def test_the_rollouts_arrive_as_a_dataset(arrived, tmp_path):
    folder = arrived.save("dataset", "me/mine-rollouts", tmp_path)
    steps = [read_lines(path) for path in sorted((first_run() / "rollouts").iterdir())]
    programs = [program["program"] for questions in steps for each in questions for program in each["programs"]]
    assert pyarrow.parquet.read_table(folder / "programs.parquet")["program"].to_pylist() == programs


def test_a_dry_run_prints_the_files_that_arrive_and_sends_nothing(arrived, capsys, monkeypatch):
    monkeypatch.setattr(push, "send", lambda *_, **__: pytest.fail("sent"))
    assert main(["push", str(first_run()), "me/mine", "--license", "apache-2.0", "--dry-run", "--json"]) == 0
    printed = {each["repo"]: each for each in json.loads(capsys.readouterr().out)}
    assert printed.keys() == {"me/mine-code", "me/mine-test"}
    for repo, each in printed.items():
        assert each["files"] == {name: len(content) for name, content in arrived.repos["model", repo].items()}
        assert each["card"].encode() == arrived.repos["model", repo]["README.md"]
    lines = hub.summary_lines([*printed.values()])
    assert lines[0] == "model me/mine-code" and any(line.endswith("  model.safetensors") for line in lines)


def test_what_cannot_be_pushed_is_refused_before_anything_is_sent(tmp_path):
    run, licence = str(first_run()), ("--license", "mit")
    with running_hub() as emulator:
        said = refused(
            ["push", run, "mine", *licence],
            ["push", run, "me/mine"],
            ["push", str(tmp_path), "me/mine", *licence],
            ["push", run, "me/mine", *licence],
            environment=emulator.environment | {"HF_TOKEN": f"not {TOKEN}"},
        )
        assert not emulator.repos
    reasons = ("write user/name", "a model trained from scratch states none", "not a run", "hf auth login")
    assert len(said) == len(reasons)
    assert all(reason in line for reason, line in zip(reasons, said, strict=True)), said


def test_a_hub_that_cannot_be_reached_is_named_in_a_line(tmp_path):
    with running_hub() as gone:
        environment = gone.environment
    push = start_codea1("push", str(first_run()), "me/mine", "--license", "mit", environment=environment)
    said = push.communicate(timeout=300)[1].splitlines()
    assert push.returncode == 1 and len(said) == 1 and said[0].startswith("codea1: me/mine-code: ")


def test_what_is_pushed_names_no_path_of_this_machine(tmp_path, monkeypatch):
    base = tmp_path / "clients" / "acme"
    base.mkdir(parents=True)
    loaded = open_policy(str(first_run()), "code").policy.tokenizer
    loaded.save(base)
    settings = json.loads((base / "tokenizer_config.json").read_text())
    (base / "tokenizer_config.json").write_text(json.dumps(settings | {"name_or_path": str(base), "unk_token": "/"}))
    run, sent = tmp_path / "run", tmp_path / "sent"
    shutil.copytree(first_run(), run)
    recorded = yaml.safe_load((run / "config.yaml").read_text())
    recorded["data"]["source"] = f"{base}/questions.jsonl"
    recorded["test"]["start"] = "~/acme-run@3"
    recorded["rewards"] |= {"code": f"{base}/reward.py:share"}
    recorded["eval"]["datasets"] = ["humanevalplus", f"{base}/own.jsonl"]
    (run / "config.yaml").write_text(yaml.safe_dump(recorded))
    source = open_policy(str(first_run()), "code")
    policy = replace(source.policy, tokenizer=load_tokenizer(base))
    monkeypatch.setattr(push, "open_policy", lambda *_: replace(source, policy=policy))
    monkeypatch.setattr(push, "send", lambda uploads, **_: shutil.copytree(uploads[0].folder.parent, sent))
    assert main(["push", str(run), "me/mine", "--license", "mit"]) == 0
    assert yaml.safe_load((sent / "code" / "training_config.yaml").read_text())["data"]["source"] == "questions.jsonl"
    assert "`acme-run@3`" in (sent / "test" / "README.md").read_text()
    assert json.loads((sent / "code" / "tokenizer_config.json").read_text())["unk_token"] == "/"
    for file in (*sent.rglob("*.json"), *sent.rglob("*.yaml"), *sent.rglob("*.md")):
        assert not re.search("/clients/|~/|/home/|/tmp/", file.read_text()), file


def test_a_card_names_a_base_of_the_hub_adapters_and_self_play():
    overrides = ["model.pretrained=a/base", "lora.rank=16", "method.name=self_play", "run.directory=x"]
    config = load(Config, "1.5b/a1", overrides)
    text = cards.model_card(config, "code", {"code": "me/x-code"}, 7, [], "mit")
    assert ModelCard(text).data.to_dict()["base_model"] == "a/base"
    assert "adapters of rank 16" in text and "The run was not evaluated." in text
    assert "**Code LLM**" in text and "**Test LLM**" in text
    assert "--model me/x-code --test-model me/x-code" in text


def test_the_licence_is_what_the_base_models_card_states(tmp_path):
    assert hub.licence_of(str(tmp_path)) is None
    (tmp_path / "README.md").write_text("---\nlicense: llama3\n---\n# A base\n")
    assert hub.licence_of(str(tmp_path)) == "llama3"
    malformed = ("license: [mit", "- mit", "license: [mit, gemma]", "license: !!python/name:os.getcwd")
    for odd in (*malformed, "[" * 9_999, "\0"):
        (tmp_path / "README.md").write_text(f"---\n{odd}\n---\n")
        assert hub.licence_of(str(tmp_path)) is None
