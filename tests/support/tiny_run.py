"""A whole training run small enough for a test: seconds a process, yet its programs run and its book fills.

`first_run` is trained once for a whole session of tests. Those that come while it does wait for it, or each would
compile the same programs on its share of a core.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from codea1_jax.common.files import read_lines

ROOT = Path(__file__).parents[2]

# Lengths are chosen so that every batch has one shape: compiling is most of the time.
SETTINGS = (
    "model.architecture={hidden_size: 32, intermediate_size: 64, num_layers: 1, num_heads: 2, head_dim: 16}",
    "model.architecture.num_kv_heads=1",
    "warm_start.steps=300",
    "warm_start.batch=8",
    "warm_start.optimizer.learning_rate=0.01",
    "warm_start.packing={row_length: 128, micro_batch_tokens: 1024}",
    f"warm_start_cache={ROOT / '.cache' / 'warm_start'}",
    "code.packing={row_length: 256, micro_batch_tokens: 1024, logit_chunk: 128}",
    "test.packing={row_length: 256, micro_batch_tokens: 1024, logit_chunk: 128}",
    "code.grpo.mini_batch_questions=1",
    "test.grpo.mini_batch_questions=1",
    "rollout.samples=2",
    "rollout.suites=2",
    "rollout.rows=8",
    "rollout.code_tokens=32",
    "rollout.test_tokens=32",
    "rollout.temperature=0.5",
    "train.questions=2",
    "train.steps=4",
    "data.problems=6",
    "data.heldout_problems=2",
    "eval.every=2",
    "eval.samples=2",
    "checkpoint.every=2",
    "sandbox.workers=1",
)

_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "PYTHONWARNINGS": "ignore:Error reading persistent compilation cache entry",  # which another was writing
}


def start_codea1(*arguments: str, environment: Mapping[str, str] = {}) -> subprocess.Popen[str]:
    """Starts the command line in a separate process."""
    return start_script(
        "-c", "import sys; from codea1_jax.cli import main; sys.exit(main())", *arguments, **environment
    )


def refused(*commands: Sequence[str], environment: Mapping[str, str] = {}) -> list[str]:
    """What commands that must be refused say on standard error, one after the other in one process."""
    program = "import json, sys; from codea1_jax.cli import main; print(*map(main, json.loads(sys.argv[1])))"
    process = start_script("-c", program, json.dumps(commands), **environment)
    codes, said = process.communicate()
    assert codes.split() == ["2"] * len(commands), said
    return said.splitlines()


def start_script(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Starts Python in a separate process."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | _ENVIRONMENT | environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )


def train_arguments(directory: Path, *more: str) -> tuple[str, ...]:
    """A tiny run of the paper's own method."""
    return ("train", "micro/a1_paper", *SETTINGS, f"run.directory={directory}", *more)


@cache
def first_run() -> Path:
    """A finished run of four steps, with what it printed in `log`. Tests read it, and copy it to change it."""
    session = Path(os.environ["CODEA1_TEST_SESSION"])
    run = session / "run"
    with (session / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (session / "log").exists():
            (session / "log").write_text(finish(start_codea1(*train_arguments(run))))
    return run


# --- what a run leaves behind --------------------------------------------------------------------------


def finish(process: subprocess.Popen[str]) -> str:
    """Waits for a run and returns what it said on standard error."""
    _, said = process.communicate()
    assert process.returncode == 0, said
    return said


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)


def steps_done(directory: Path) -> int:
    path = directory / "metrics.jsonl"
    return (
        max((line["step"] for line in read_lines(path) if line["kind"] == "train"), default=0) if path.exists() else 0
    )


def without_times(directory: Path) -> list[dict[str, Any]]:
    lines = read_lines(directory / "metrics.jsonl")
    return [
        {
            name: value
            for name, value in line.items()
            if not name.startswith(("time", "seconds/", "tokens_per_second/", "mfu/", "compiled/"))
        }
        for line in lines
    ]


def saved(checkpoints: Path, step: int) -> tuple[dict[str, np.ndarray], Any]:
    """Every array of a checkpoint by its path, and its state's document, read without this project's code."""
    with ocp.CheckpointManager(checkpoints) as manager:
        document = manager.restore(step, args=ocp.args.Composite(document=ocp.args.JsonRestore()))["document"]
    place = checkpoints / str(step) / "arrays"
    with ocp.PyTreeCheckpointer() as reader:  # to the host: the run's devices may not be here
        tree = reader.metadata(place).item_metadata.tree
        to_host = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree)
        arrays = reader.restore(place, ocp.args.PyTreeRestore(restore_args=to_host))
    leaves = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(arrays)}
    return leaves, document["document"]["state"]


def assert_same_end(checkpoints: Path, others: Path, step: int) -> None:
    """Two runs saved the same parameters, optimizers, book and place in the data, bit for bit."""
    (arrays, document), (other_arrays, other_document) = saved(checkpoints, step), saved(others, step)
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        assert array.dtype == other_arrays[name].dtype
        assert array.tobytes() == other_arrays[name].tobytes(), name
    assert document == other_document
