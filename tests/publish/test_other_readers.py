"""What is published, read by the released libraries that it is for, in an environment of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codea1_jax.cli import main

PACKAGES = ("datasets==5.2.0", "evalplus==0.3.1", "lm_eval==0.4.13", "transformers==5.24.0", "torch")


@pytest.mark.long
def test_released_libraries_read_models_datasets_and_results(arrived, evaluation, tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))}
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], env=environment, check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], env=environment, check=True)
    for kind, name in (("model", "code"), ("model", "test"), ("dataset", "rollouts")):
        arrived.save(kind, f"me/mine-{name}", tmp_path / "arrived" / name)
    for form in ("evalplus", "lm-eval"):
        assert main(["export", str(evaluation), str(tmp_path / form), "--to", form]) == 0
    script = [python, Path(__file__).parent / "read_back.py", tmp_path / "arrived", tmp_path]
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
