import argparse
import json
from collections.abc import Mapping
from typing import Any

from codea1_jax.cli._runtime import DONE, FAILED
from codea1_jax.common.errors import UserError
from codea1_jax.run.rundir import find_run
from codea1_jax.runtime.checkpoints import CheckpointError, Checkpoints
from codea1_jax.runtime.storage import locate


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="RUN", help="a run's directory, or where its checkpoints are (gs://...)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    with _open(options.place) as checkpoints:
        rows = [_row(checkpoints, step) for step in checkpoints.steps()]
    if options.json:
        print(json.dumps(rows))
    else:
        print("\n".join(_line(row) for row in rows))
    return FAILED if any("damaged" in row for row in rows) else DONE


def _open(place: str) -> Checkpoints:
    """The checkpoints, to be looked at only. Raises UserError if there are none."""
    run = find_run(place)
    directory = place if run is None else run.checkpoints
    if not locate(directory).exists():
        raise UserError(f"{place}: no such run")
    checkpoints = Checkpoints(directory, read_only=True)
    if not checkpoints.steps():
        raise UserError(f"{place}: nothing is saved there")
    return checkpoints


def _row(checkpoints: Checkpoints, step: int) -> dict[str, Any]:
    try:
        return {"step": step, **_evaluation(checkpoints.look(step)[1], step)}
    except CheckpointError as error:
        return {"step": step, "damaged": str(error)}


def _evaluation(document: Mapping[str, Any], step: int) -> dict[str, float]:
    lines = [line for line in document["metrics"] if line["kind"] == "eval" and line["step"] == step]
    figures = {name: value for line in lines for name, value in line.items() if name.startswith("eval/")}
    return {name: value for name, value in figures.items() if not name.endswith(("_low", "_high"))}


def _line(row: Mapping[str, Any]) -> str:
    if "damaged" in row:
        return f"{row['step']:>8}  {row['damaged']}"
    figures = ", ".join(f"{name.removeprefix('eval/')} {value:.2f}" for name, value in row.items() if name != "step")
    return f"{row['step']:>8}  {figures}".rstrip()
