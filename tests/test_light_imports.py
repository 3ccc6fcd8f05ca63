"""What starts without JAX: looking at configurations, presets and launches needs no accelerator stack."""

import json
import subprocess
import sys

import pytest

LOADED = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
LAUNCH = "tpu up first 1.5b/a1_v5e --project P --zone us-west4-a --bucket gs://B/codea1 --dry-run"
HELP = "from codea1_jax.cli import main\ntry: main(['--help'])\nexcept SystemExit as end: assert end.code == 0"
COMMANDS = f"""
import codea1_jax.game.mistake_book, codea1_jax.game.rewards
from codea1_jax.cli import main
assert main(["train", "micro/a1", "--dry-run"]) == main(["presets", "--json"]) == 0
from launch.cli import main
assert main({LAUNCH.split()}) == 0
"""


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        (HELP, {"jax", "pydantic", "yaml", "rich", "numpy", "sandbox"}),
        (COMMANDS, {"jax", "flax", "orbax", "transformers"}),
        ("import data_pipeline, data_pipeline.rows", {"pyarrow"}),
    ],
    ids=["help", "commands that read configurations", "questions that are not in a parquet file"],
)
def test_a_start_loads_only_what_it_needs(program, absent):
    done = subprocess.run([sys.executable, "-c", program + LOADED], capture_output=True, text=True, check=True)
    assert not absent & set(json.loads(done.stderr.splitlines()[-1]))
