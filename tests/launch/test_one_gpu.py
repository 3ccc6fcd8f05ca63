"""launch/one_gpu.sh: what it would run, with a card and without, for the first time and again."""

import shlex
import subprocess
from pathlib import Path

import pytest

from codea1_jax import cli

ROOT = Path(__file__).parents[2]


@pytest.fixture
def commands(tmp_path: Path):
    """The programs that a dry run prints, each with its arguments."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname", "realpath"):
        (programs / name).symlink_to(f"/usr/bin/{name}")

    def commands_(*arguments: str, card: bool = False, **environment: str) -> list[list[str]]:
        (programs / "nvidia-smi").unlink(missing_ok=True)
        if card:
            (programs / "nvidia-smi").symlink_to("/usr/bin/true")
        done = subprocess.run(
            ["/usr/bin/bash", str(ROOT / "launch" / "one_gpu.sh"), *arguments],
            env={"PATH": str(programs), "DRY_RUN": "1", "OUT": str(tmp_path / "out"), **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        printed = [shlex.split(each) for each in f"\n{done.stdout}".partition("\ndone:")[0].split("\n+ ")[1:]]
        for words in printed:
            if words[0].endswith("/codea1"):
                cli._parse(words[1:])
        return printed

    return commands_


def steps(printed: list[list[str]]) -> list[str]:
    return [words[1] for words in printed if words[0].endswith("/codea1")]


def test_a_laptop_warms_the_test_llm_up_and_measures_by_unseen_questions(commands, tmp_path):
    printed = commands()
    assert printed[0] == ["make", "venv"]
    assert steps(printed) == ["init", "doctor", "train", "train", "eval", "eval", "convert", "convert"]
    first, second = (words for words in printed if words[1] == "train")
    assert "method.name=sft" in first and f"test.start={tmp_path}/out/sft" in second
    assert all(f"{tmp_path}/out/unseen.jsonl" in words for words in printed if words[1] == "eval")


def test_a_card_gets_cuda_and_kodcode_once(commands):
    printed = commands(card=True, CUDA="cuda13")
    assert printed[1][0] == "env" and printed[1][-1] == ".[cuda13]"
    prepared = [] if (ROOT / "data" / "kodcode").exists() else ["data"]
    assert steps(printed) == [*prepared, "init", "doctor", "train", "eval", "eval", "convert", "convert"]
    assert any("Qwen/Qwen2.5-Coder-1.5B-Instruct" in words for words in printed)


def test_questions_and_model_are_ones_own_and_what_is_done_is_not_repeated(commands, tmp_path):
    (tmp_path / "own.jsonl").touch()
    printed = commands(str(tmp_path / "own.jsonl"), MODEL="a/model", card=True)
    (init,) = (words[2:] for words in printed if words[1] == "init")
    assert init == [f"{tmp_path}/out", "--data", f"{tmp_path}/own.jsonl", "--model", "a/model"]
    (tmp_path / "out" / "exported-code").mkdir(parents=True)
    (tmp_path / "out" / "config.yaml").touch()
    again = steps(commands(str(tmp_path / "own.jsonl"), card=True))
    assert again == ["doctor", "train", "eval", "eval", "convert"]
    (tmp_path / "out" / "run").mkdir()  # begun, perhaps with test.start, of which config.yaml knows nothing
    assert steps(commands(str(tmp_path / "own.jsonl"), card=True)) == ["train", "eval", "eval", "convert"]
