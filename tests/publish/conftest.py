"""What the tests of publishing share: an evaluation's folder, and a Hub to which a run was pushed."""

import json
from pathlib import Path

import pytest
from hub_emulator import running_hub
from tiny_run import finish, first_run, start_codea1

SAMPLES = [("Mbpp/2", "a"), ("Mbpp/2", "b"), ("Mbpp/3", "c"), ("Mbpp/3", "d"), ("Mbpp/4", "e"), ("Mbpp/4", "f")]
RESULTS = [("MBPP/2", ["passed", "timed out"]), ("MBPP/3", ["raised", "failed"])]  # the third cannot be judged


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    folder = tmp_path / "eval"
    folder.mkdir()
    (folder / "summary.json").write_text("{}")
    lines = [json.dumps({"task_id": task, "solution": program}) + "\n" for task, program in SAMPLES]
    (folder / "samples.jsonl").write_text("".join(lines))
    results = [{"task_id": task, "source": "mbpp_plus", "statuses": of, "details": [""] * 2} for task, of in RESULTS]
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in results))
    return folder


@pytest.fixture(scope="session")
def arrived():
    """A Hub to which a run was pushed."""
    with running_hub() as emulator:
        push = ("push", str(first_run()), "me/mine", "--license", "apache-2.0", "--dataset", "--private")
        finish(start_codea1(*push, environment=emulator.environment))
        yield emulator
