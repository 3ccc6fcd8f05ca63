import argparse
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from codea1_jax.cli._runtime import DONE, FAILED
from codea1_jax.common.errors import UserError
from codea1_jax.common.words import counted
from codea1_jax.run.rundir import find_run
from codea1_jax.runtime.checkpoints import CheckpointError, Checkpoints
from codea1_jax.runtime.storage import locate


def add(parser: argparse.ArgumentParser) -> None:
    saved = parser.add_subparsers(required=True, metavar="COMMAND")
    ls = saved.add_parser("ls", help="list a run's checkpoints and how good each was")
    show = saved.add_parser("show", help="show what is in a checkpoint")
    show.add_argument("--step", type=int, help="default: the newest")
    for command, run in ((ls, _ls), (show, _show)):
        command.add_argument("place", metavar="RUN", help="a run's directory, or where its checkpoints are (gs://...)")
        command.add_argument("--json", action="store_true", help="one JSON document")
        command.set_defaults(run=run)


def _ls(options: argparse.Namespace) -> int:
    with _open(options.place) as checkpoints:
        rows = [_row(checkpoints, step) for step in checkpoints.steps()]
    if options.json:
        print(json.dumps(rows))
    else:
        print("\n".join(_line(row) for row in rows))
    return FAILED if any("damaged" in row for row in rows) else DONE


def _show(options: argparse.Namespace) -> int:
    with _open(options.place) as checkpoints:
        step = checkpoints.latest() if options.step is None else options.step
        assert step is not None  # a place without checkpoints is refused
        arrays, document = checkpoints.look(step)
    state = document["state"]
    content = {
        "step": step,
        "arrays": _sizes(arrays),
        "book": {"questions": len(state["book"]), "tests": sum(map(len, state["book"].values()))},
        "data": state["data"],
        "figures": _evaluation(document, step),
        "config": document["config"],
    }
    if options.json:
        print(json.dumps(content))
        return DONE
    print(f"step {step}")
    for name, size in content["arrays"].items():
        numbers, arrays = counted(size["elements"], "number"), counted(size["arrays"], "array")
        print(f"{name}: {numbers} in {arrays}, {size['bytes'] / 1e6:,.1f} MB")
    tests, questions = counted(content["book"]["tests"], "test"), counted(content["book"]["questions"], "question")
    print(f"mistake book: {tests} of {questions}")
    print("\n".join(f"{name} {value:.2f}" for name, value in content["figures"].items()))
    return DONE


def _open(place: str) -> Checkpoints:
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


def _sizes(arrays: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, int]]:
    sizes: dict[str, dict[str, int]] = defaultdict(lambda: {"arrays": 0, "elements": 0, "bytes": 0})
    for path, (dtype, shape, _) in arrays.items():
        whose, *part = path.split("/")[:2]
        size = sizes["/".join((whose, *part)) if {*part} & {"params", "opt_state", "reference"} else whose]
        size["arrays"] += 1
        size["elements"] += math.prod(shape)
        size["bytes"] += math.prod(shape) * jnp.dtype(dtype).itemsize
    return dict(sizes)
