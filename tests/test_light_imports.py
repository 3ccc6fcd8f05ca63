"""What starts without JAX: looking at configurations, presets and launches needs no accelerator stack."""

import json
import subprocess
import sys

import pytest

from codea1_judge import cli as command
from sandbox.remote.bearer import VARIABLE

LOADED = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
LAUNCH = "tpu up first 1.5b/a1_v5e --project P --zone us-west4-a --bucket gs://B/codea1 --dry-run"


def modules_after(program: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a program."""
    done = subprocess.run([sys.executable, "-c", program + LOADED], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "module", ["codea1_jax.config", "codea1_jax.game.mistake_book", "codea1_jax.game.rewards", "launch"]
)
def test_importing_it_loads_no_jax(module):
    assert not {"jax", "flax", "orbax", "transformers"} & modules_after(f"import {module}")


@pytest.mark.parametrize("arguments", ["train micro/a1 --dry-run", "presets", "presets --json"])
def test_a_command_that_only_reads_configurations_loads_no_jax(arguments):
    program = f"from codea1_jax.cli import main\nassert main({arguments.split()}) == 0"
    assert "jax" not in modules_after(program)


def test_reading_questions_loads_what_reads_parquet_only_for_a_parquet_file():
    assert "pyarrow" not in modules_after("import data_pipeline, data_pipeline.rows, codea1_jax.training.trainer")


def test_a_dry_run_of_the_launcher_loads_no_jax():
    assert "jax" not in modules_after(f"from launch.cli import main\nassert main({LAUNCH.split()}) == 0")


def test_help_loads_neither_the_configuration_nor_what_draws_tables_nor_the_judge():
    program = "from codea1_jax.cli import main\ntry: main(['--help'])\nexcept SystemExit as end: assert end.code == 0"
    assert not {"jax", "pydantic", "yaml", "rich", "numpy", "sandbox"} & modules_after(program)


def test_the_token_variable_that_help_names_is_the_one_that_is_read():
    assert command.VARIABLE == VARIABLE
