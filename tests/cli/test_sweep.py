"""Every command in every kind of trouble: one line that names it, the right exit code, no traceback, and an end.

The commands run as separate processes, each in a directory of its own. A full disk is a limit on the size of a file, a
directory that cannot be written to one without the right to write, which root also lacks here.
"""

import argparse
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from tiny_model import SHAPE
from tiny_run import ROOT, SETTINGS, first_run
from waiting import wait_for
from workers import free_port

from codea1_jax import cli
from codea1_jax.models.policy import write_random_model
from codea1_jax.models.tokenizer import micro_tokenizer
from data_pipeline import micro

# By command, what is run in a directory with `data.jsonl` and `run`, a finished run.
COMMANDS = {
    "train": ("train", "micro/a1_paper", *SETTINGS, "train.steps=1", "eval.every=1", "run.directory=out"),
    "checkpoint ls": ("checkpoint", "ls", "run"),
    "checkpoint show": ("checkpoint", "show", "run"),
    "convert": ("convert", "run", "out", "--role", "code"),
    "eval code": ("eval", "code", "--data", "data.jsonl", "--samples", "reference", "--out", "out"),
    "eval tests": ("eval", "tests", "--data", "data.jsonl", "--samples", "reference", "--out", "out"),
    "eval suites": ("eval", "suites", "--data", "data.jsonl", "--model", "run", "--out", "out"),
    "eval collaboration": (
        *("eval", "collaboration", "--data", "data.jsonl", "--out", "out"),
        *("--samples", "reference", "--test-samples", "reference"),
    ),
    "export": ("export", "data.jsonl", "out", "--to", "pytest"),
    "push": ("push", "run", "me/mine", "--license", "mit", "--dry-run"),
    "solve": ("solve", "data.jsonl", "--model", "run", "--n", "2", "--max-tokens", "64"),
    "serve": ("serve", "run", "--role", "code", "--prompt-tokens", "64", "--response-tokens", "64"),
    "plan": ("plan", "1.5b/a1_v5e"),
    "rehearse": ("rehearse", "micro/a1", "--directory", "rehearsal"),
    "data prepare": ("data", "prepare", "problems", "--source", "data.jsonl"),
    "data validate": ("data", "validate", "data.jsonl"),
    "presets": ("presets",),
    "init": ("init", "mine", "--data", "data.jsonl", "--model", "model", "--topology", "cpu"),
    "report": ("report", "run"),
    "reproduce": ("reproduce", "tests", "--seeds", "1", "--steps", "1", "--questions", "2", "--out", "out"),
    "sandbox check": ("sandbox", "check"),
    "sandbox serve": ("sandbox", "serve"),
    "doctor": ("doctor", "micro/a1"),
    "selftest": ("selftest", "micro/a1"),
}
SERVERS = ("serve", "sandbox serve")
ENDLESS = (*SERVERS, "solve", "plan", "rehearse", "reproduce", "selftest")  # too long: only stopped, or refused
BRIEF = tuple(name for name in COMMANDS if name not in ENDLESS)
# What runs before the first line of the command line is Python's own affair.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from codea1_jax import cli
print("ready", file=sys.stderr, flush=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(cli.main(sys.argv[1:]))
"""
FINDINGS = ("sandbox check", "doctor")  # what they find is their output
QUESTION = {
    "id": "one",
    "question": "Add one.",
    "solution": "def f(x):\n    return x + 1",
    "entry_point": "f",
    "tests": ["assert f(1) == 2", "assert f(5) == 6"],
}
MANY = 200  # questions: their results are larger than a small file may be
SMALL = 4096  # bytes


def test_the_sweep_has_every_command():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    for name in cli.COMMANDS:
        import_module(f"codea1_jax.cli.{name}").add(commands.add_parser(name))

    def names(of: argparse._SubParsersAction, before: str = "") -> Iterator[str]:
        for name, inner in of.choices.items():
            nested = [action for action in inner._actions if isinstance(action, argparse._SubParsersAction)]
            yield from names(nested[0], f"{before}{name} ") if nested else [before + name]

    assert set(names(commands)) == COMMANDS.keys()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a command is run."""
    shutil.copytree(first_run(), tmp_path / "run")
    tokenizer = micro_tokenizer(micro.words())
    write_random_model(tmp_path / "model", replace(SHAPE, vocab_size=tokenizer.vocab_size), tokenizer)
    rows = (QUESTION | {"id": f"question {i}", "solution": f"{QUESTION['solution']}# {i}\n"} for i in range(MANY))
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def start(place: Path, name: str, *more: str, hinder: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    """Starts a command, in a group of processes of its own, which `hinder` makes trouble for."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5",
    }
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *COMMANDS[name], *more],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hinder,  # noqa: PLW1509  (no thread of a test is running)
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, output and errors; afterwards nothing that it started is left."""
    try:
        out, err = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    wait_for(lambda: not _is_group(process.pid))  # helpers of Python's own end by themselves, a moment later
    return process.returncode, out, err


def _is_group(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def last_line(err: str) -> str:
    """The line that explains the end; before it there is only the log, or what was left out."""
    assert "Traceback" not in err and "Error:" not in err, err
    lines = err.removeprefix("ready\n").strip().splitlines()
    ours = [line for line in lines if line.startswith("codea1: ")]
    assert lines and lines[-1] in ours, err
    return lines[-1]


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))


@pytest.mark.long
@pytest.mark.parametrize("name", BRIEF)
def test_where_files_must_stay_small_a_command_works_or_names_the_file_in_one_line(name, place):
    code, out, err = ended(start(place, name, hinder=small_files))
    if code == 0 or name in FINDINGS:
        assert "Traceback" not in out + err, err
        assert code == 0 or out
    else:
        assert code in (1, 2), err  # 2: not even the judge can be started
        assert re.search("File too large|`ulimit -f`", last_line(err)), err


def without_rights() -> None:
    """Takes from root, too, the right to write where nobody may; programs that it starts cannot get it back."""
    library = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        library.prctl(24, capability)  # PR_CAPBSET_DROP


@pytest.mark.long
@pytest.mark.parametrize("name", BRIEF)
def test_where_nothing_can_be_written_a_command_works_or_names_the_place_in_one_line(name, place):
    folders = [place, *(path for path in place.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        code, _, err = ended(start(place, name, hinder=without_rights))
    finally:
        for folder in folders:
            folder.chmod(0o755)
    if code == 0 or name in FINDINGS:
        assert "Traceback" not in err, err
        return
    line = last_line(err)
    assert code in (1, 2) and re.search(r"Permission denied; change its permissions, or choose another place", line), (
        err
    )


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in BRIEF if name != "train"])
def test_a_reader_that_has_gone_ends_a_command_quietly(name, place):
    process = start(place, name)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    code, _, err = ended(process)
    assert code == 0 or "nothing was measured" in last_line(err), err  # the tiny model writes no tests
    assert "Traceback" not in err and "Broken pipe" not in err, err


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_stops_a_command_with_one_line_or_comes_too_late(name, seconds, place):
    port = ("--port", str(free_port())) if name in SERVERS else ()
    grpc = ("--grpc-port", str(free_port())) if name == "serve" else ()
    process = start(place, name, *port, *grpc)
    assert process.stderr is not None and process.stderr.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert "Traceback" not in err, err
    if code == -signal.SIGINT:  # all was done and printed, and Python was ending
        assert out and "codea1: stopped" not in err, err
    elif code != 0:  # 0: done, or a server that was asked to stop
        assert (code, last_line(err).startswith("codea1: stopped")) == (130, True), err
