import argparse
from pathlib import Path

from codea1_jax.cli._evaluation import load_data
from codea1_jax.cli._output import say
from codea1_jax.cli._runtime import DONE
from codea1_jax.common.errors import UserError
from codea1_jax.common.files import naming
from codea1_jax.config import Config
from codea1_jax.run.publish import pytest_files
from codea1_jax.run.publish.cards import rollouts_card
from codea1_jax.run.publish.hub import CARD
from codea1_jax.run.publish.tables import tested_questions, write_rollouts
from codea1_jax.run.rundir import find_run, recorded_run


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a run's directory; pytest: or problems")
    parser.add_argument("destination", type=Path, help="a new directory")
    parser.add_argument(
        "--to",
        required=True,
        choices=("dataset", "pytest"),
        help="dataset: a run's programs and suites, for datasets.load_dataset; pytest: a test file for each question",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    destination = options.destination
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise UserError(f"{destination}: already exists; choose a new directory")
    with naming(destination):
        destination.mkdir(parents=True, exist_ok=True)
        if options.to == "dataset":
            _write_dataset(options.source, destination)
        else:
            _write_pytest(options.source, destination)
    print(destination)
    return DONE


def _write_dataset(run: str, destination: Path) -> None:
    recorded = recorded_run(run)
    counts = write_rollouts(Path(recorded.place), destination)
    method = Config.model_validate(recorded.config).method.name
    (destination / CARD).write_text(rollouts_card(destination.name, method, counts, None))


def _write_pytest(source: str, destination: Path) -> None:
    run = find_run(source)
    problems = tested_questions(Path(run.place)) if run else load_data(source).problems
    if left_out := pytest_files.write(problems, destination):
        say(f"codea1: left out, without tests: {', '.join(left_out)}")
