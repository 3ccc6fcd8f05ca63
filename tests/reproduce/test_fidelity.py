"""What is said of the paper, its code and the presets is what the presets have, and what `reproduce` asks for."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from codea1_jax import cli
from codea1_jax.config import Config, load
from scripts import write_fidelity as fidelity

PAGE = fidelity.TARGET.read_text()
CODE = {key: code for _, key, _, code in fidelity.ROW.findall(PAGE)}  # what the authors' code does, by key


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def test_the_page_is_up_to_date():
    assert fidelity.refreshed(PAGE) == PAGE
    assert len(CODE) == len(re.findall(r"^\| [^|]+ \| `", PAGE, re.MULTILINE)) > 40  # no row goes unread


def test_a_value_that_is_out_of_date_is_refreshed():
    out_of_date = PAGE.replace("| `rollout.top_p` | 1 | 1 | 1 | 1 |", "| `rollout.top_p` | 1 | 1 | 2 | 3 |")
    assert out_of_date != PAGE == fidelity.refreshed(out_of_date)


@pytest.mark.parametrize("model", ["1.5b", "7b"])
def test_the_presets_named_paper_do_what_the_papers_code_does(model):
    paper, default = (load(Config, f"{model}/a1{kind}") for kind in ("_paper", ""))
    assert {key: fidelity.shown(fidelity.value(paper, key)) for key in CODE} == CODE
    ours = dict(flat(default.model_dump()))
    differing = {key for key, value in flat(paper.model_dump()) if value != ours[key]}
    assert differing - {"run.directory"} == {
        name
        for key in CODE
        if fidelity.value(default, key) != fidelity.value(paper, key)
        for name in ({key, key.replace("code.", "test.")})
    }


def test_reproduce_asks_for_what_the_page_says(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def commands(*options: str) -> list[str]:
        assert cli.main(["reproduce", "code", "tests", "--model", "3b", "--dry-run", *options]) == 0
        return capsys.readouterr().out.splitlines()

    lines = commands()
    trained = [line.split()[2] for line in lines if line.startswith("codea1 train")]
    assert trained == ["3b/golden_paper", "3b/self_play_paper", "3b/a1_paper", "3b/sft_paper"]
    programs = [line for line in lines if line.startswith("codea1 eval code")]
    assert all("--n 32 --limits paper" in line and "--reading paper" in line for line in programs)
    assert ["paper_last" in line for line in programs] == ["Qwen/" not in line for line in programs]
    assert all("--protocol paper" in line for line in lines if line.startswith("codea1 eval tests"))
    ours = commands("--as", "ours")
    assert next(line.split()[2] for line in ours if line.startswith("codea1 train")) == "3b/golden"
    assert not any("--limits" in line or "--reading" in line for line in ours)
    assert cli.main(["reproduce", "code", "--as", "paper", "--dry-run"]) == 2  # the micro world has no original
