"""What is published, read by the released libraries that it is for, in an environment of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("datasets==5.2.0", "transformers==5.24.0", "torch")
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))}


@pytest.mark.long
def test_released_libraries_read_models_and_datasets(arrived, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], env=ENVIRONMENT, check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], env=ENVIRONMENT, check=True)
    for kind, name in (("model", "code"), ("model", "test"), ("dataset", "rollouts")):
        arrived.save(kind, f"me/mine-{name}", tmp_path / "arrived" / name)
    script = Path(__file__).parent / "read_back.py"
    offline = ENVIRONMENT | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    subprocess.run([python, script, tmp_path / "arrived"], cwd=ROOT, env=offline, check=True)
