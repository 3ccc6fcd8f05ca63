"""`codea1 reproduce --model 1.5b`: every step of the paper's tables, by a tiny model, killed and resumed."""

import csv
import json
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from qwen_vocabulary import make_tokenizer
from tiny_model import SHAPE
from tiny_run import ROOT, start_script

from codea1_jax.models.policy import write_random_model

# The command line, with a single row in the one table.
ONE_ROW = """
import sys
from dataclasses import replace
from codea1_jax.reproduce import published
code = replace(published.published()["code"], rows={"golden": ("golden",)})
published.published = lambda: {"code": code}
from codea1_jax.cli import main
from tiny_model import shrink_lab
shrink_lab()
sys.exit(main())
"""
SUPPORT = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}"}
TINY = ("--model", "1.5b", "--hardware", "local")


def killed(command: subprocess.Popen[str], when: Callable[[], bool], seconds: float = 900) -> None:
    """Kills the command as soon as something is there."""
    deadline = time.monotonic() + seconds
    while not when():
        assert command.poll() is None, command.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    command.send_signal(signal.SIGKILL)
    command.communicate()


def finished(command: subprocess.Popen[str]) -> str:
    out, err = command.communicate()
    assert command.returncode == 0, err
    return out


@pytest.mark.long
def test_a_row_is_prepared_trained_and_evaluated_through_a_kill(tmp_path):
    names = ("double", "triple", "square")
    solutions = dict(zip(names, ("2 * x", "3 * x", "x * x"), strict=True))
    kodcode = [
        {
            "question_id": f"{name}_C",
            "style": "complete",
            "subset": "mine",
            "question": f"Write {name}(x), the {name} of x.",
        }
        | {"solution": f"def {name}(x):\n    return {body}", "gpt_difficulty": "easy"}
        | {"test": f"from solution import {name}\n\ndef test_one():\n    assert {name}(3) == {eval(body, {'x': 3})}\n"}
        | {"test_info": [{"function_name": name, "function_declaration": f"def {name}(x):", "parameter_list": "(x)"}]}
        for name, body in solutions.items()
    ]
    (tmp_path / "kodcode.json").write_text(json.dumps(kodcode))
    problem = {"task_id": "HumanEval/0", "prompt": "def inc(x):\n    '''One more.'''\n", "entry_point": "inc"}
    problem |= {
        "canonical_solution": "    return x + 1\n",
        "test": "def check(candidate):\n    assert candidate(1) == 2\n",
    }
    (tmp_path / "humaneval.jsonl").write_text(json.dumps(problem) + "\n")
    out = tmp_path / "lab"
    write_random_model(out / "model", replace(SHAPE, vocab_size=384), make_tokenizer([]))
    places = (f"kodcode={tmp_path / 'kodcode.json'}", f"humanevalplus={tmp_path / 'humaneval.jsonl'}")
    arguments = ("reproduce", "code", *TINY, "--steps", "1", "--out", str(out), "--data", *places)

    killed(
        start_script("-c", ONE_ROW, *arguments, **SUPPORT), (out / "golden-seed0.log").exists
    )  # training has been started
    assert not (out / "golden-seed0" / "summary.json").exists()
    prepared = (out / "data" / "kodcode" / "manifest.json").stat().st_mtime_ns
    printed = finished(start_script("-c", ONE_ROW, *arguments, **SUPPORT))

    assert (out / "data" / "kodcode" / "manifest.json").stat().st_mtime_ns == prepared
    assert [line["step"] for line in _lines(out / "golden-seed0" / "metrics.jsonl") if line["kind"] == "train"] == [1]
    [line] = csv.DictReader((out / "code.csv").open())
    # A random model of bytes solves nothing; the paper's 1.5B got 71.15.
    assert (line["row"], line["figure"], line["mean"], line["paper"]) == ("golden", "HumanEval+", "0.0000", "71.1500")
    assert float(line["difference"]) == -71.15
    assert "| golden | 0.0 ± 0.0; 71.15 [-71.2] | – | – | – |" in printed
    assert "Presets: MODEL/METHOD_paper; prompts: ours; reading: paper; limits of programs: paper" in printed
    assert "protocol of tests: paper" in printed


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]
