"""What a user meets when something is not right: one line that names it, the right exit code, and nothing lost."""

import errno
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from full_disk import file_size_limit
from tiny_run import ROOT, first_run, train_arguments

from codea1_jax import cli
from codea1_jax.cli._output import log_to_stderr
from codea1_jax.common.console import print_table, results_table

pytestmark = pytest.mark.usefixtures("own_directory")


@pytest.fixture
def run_copy(tmp_path: Path) -> Path:
    """A copy of a finished run, to be damaged."""
    return shutil.copytree(first_run(), tmp_path / "run")


def last_line(err: str) -> str:
    """What a command ends with; what comes before it may only be the log."""
    *log, line = err.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", text) for text in log), err
    assert line.startswith("codea1: ")
    return line


# --- storage ------------------------------------------------------------------------------------------


def test_a_checkpoint_with_a_shortened_file_is_reported_as_damaged_in_one_line(run_copy, capsys):
    arrays = run_copy / "checkpoints" / "4" / "arrays"
    largest = max((path for path in arrays.rglob("d/*")), key=lambda path: path.stat().st_size)
    with largest.open("r+b") as file:
        file.truncate(largest.stat().st_size // 3)
    assert cli.main([*train_arguments(run_copy), "--resume"]) == 1
    line = last_line(capsys.readouterr().err)
    assert "is damaged: 'arrays' cannot be read (" in line


def test_a_checkpoint_with_overwritten_bytes_is_reported_as_damaged_in_one_line(run_copy, capsys):
    (run_copy / "checkpoints" / "4" / "document" / "metadata").write_text("{}")
    assert cli.main(["checkpoint", "ls", str(run_copy)]) == 1
    good, damaged = capsys.readouterr().out.splitlines()
    assert good.split()[:2] == ["2", "avg_at_n"] and "'document' is not what was saved" in damaged
    for path in (run_copy / "checkpoints" / "2" / "arrays" / "ocdbt.process_0").rglob("d/*"):
        path.write_bytes(bytes(path.stat().st_size))
    assert cli.main(["convert", f"{run_copy}@2", str(run_copy / "exported"), "--role", "code"]) == 1
    line = last_line(capsys.readouterr().err)
    assert "is damaged: 'arrays' cannot be read (" in line and "spec" not in line


# --- reports and data ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("rollouts/step_000004.jsonl", b'{"question_id": ["a"], "programs": []}\n'),
        ("rollouts/step_000002.jsonl", b'{"question_id": "a", "programs": [1e999]}\n'),
        ("rollouts/step_000001.jsonl", b"\xff\xfe\n"),
        ("rollouts/step_000002.jsonl", b'{"programs": []}\n'),
        ("metrics.jsonl", b'{"kind": "train", "step": 1' + b"0" * 400 + b"}\n"),
        ("metrics.jsonl", b'{"kind": "train", "step": 1' + b"0" * 9_999 + b"}\n"),
        ("metrics.jsonl", b'{"kind": ["train"], "step": 1}\n'),
        ("metrics.jsonl", b'{"kind": "train", "step": "one"}\n'),
        ("metrics.jsonl", b"[]\n"),
        ("config.yaml", b"train: [\n"),
        ("config.yaml", b"a: &a [*a]\n"),
        ("config.yaml", b"at: 2001-99-99\n"),
        ("config.yaml", b"1: 2\na: 3\n"),
        ("summary.json", b"[" * 50_000),
        ("summary.json", b'{"best": -1e999}'),
        ("versions.json", b"{"),
    ],
)
def test_a_report_of_a_run_with_an_odd_file_is_a_line_that_names_it(run_copy, capsys, file, content):
    (run_copy / file).write_bytes(content)
    assert cli.main(["report", str(run_copy)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"codea1: {(run_copy / file).resolve()}")


CLEARS = "\x1b[2J\x9b1m\u202eid"  # a terminal's screen, its colours, the direction of its text


def test_what_others_wrote_reaches_a_terminal_spelled_out(capsys):
    rows = [{"id": f"{CLEARS}{n}", "question": CLEARS, "solution": f"def f(x):{CLEARS}"} for n in (1, 2)]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, [*rows, {"id": CLEARS, "question": "?", CLEARS: 1}])))
    assert cli.main(["data", "validate", "rows.jsonl"]) == 2
    assert cli.main(["solve", "rows.jsonl", "--model", "none"]) == 2
    assert cli.main(["report", f"./{CLEARS}"]) == 2
    log_to_stderr()
    logging.getLogger("codea1_jax.cli").warning("left out: %s", CLEARS)
    out, err = capsys.readouterr()
    assert "rows.jsonl:1: \\x1b[2J\\x9b1m\\u202eid1: no entry_point" in out
    assert all("\\x1b[2J\\x9b1m\\u202eid" in line for line in err.splitlines()[1:]) and len(err.splitlines()) == 3
    assert all(each.isprintable() or each == "\n" for each in out + err)


# --- the command line ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("train", "the following arguments are required: preset; see `codea1 train --help`"),
        ("train micro/a1 --steps 3", "unrecognized arguments: --steps 3; write warm_start.steps=3 or train.steps=3"),
        ("train micro/a1 --kl-coef=0.1", "unrecognized arguments: --kl-coef=0.1; write code.grpo.kl_coef=0.1 or "),
        ("train micro/a1 --bogus", "unrecognized arguments: --bogus\n"),
        ("presets --steps", "unrecognized arguments: --steps\n"),
        ("serve runs/mine --port=many", "argument --port: many is not a port; see `codea1 serve --help`"),
    ],
)
def test_a_command_that_is_not_understood_is_one_line_with_the_value_or_the_fix(arguments, line, capsys):
    assert cli.main(arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith("codea1: ") and line in err


# --- what the operating system refuses ------------------------------------------------------------------


def test_a_full_disk_ends_a_conversion_with_one_line(run_copy, tmp_path, capsys):
    with file_size_limit(4096):
        assert cli.main(["convert", str(run_copy), str(tmp_path / "out"), "--role", "code"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("codea1: ") and str(tmp_path / "out") in line
    assert "File too large" in line and "free some space" in line


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "No space left on device; free some space, or choose another place"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_write_that_fails_names_its_file(number, reason, run_copy, capsys, monkeypatch):
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("codea1_jax.common.files.os.fsync", fail)
    assert cli.main(["report", str(run_copy)]) == 1
    assert capsys.readouterr().err == f"codea1: {run_copy / 'report.html'}: {reason}\n"


def test_a_directory_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert cli.main([*train_arguments(tmp_path / "file" / "run")]) == 1
    reason = "Not a directory; a part of that path is a file: choose another place"
    assert capsys.readouterr().err.endswith(f"codea1: {tmp_path / 'file' / 'run'}: {reason}\n")


def test_standard_output_that_cannot_be_written_is_one_line():
    command = [sys.executable, "-m", "codea1_jax.cli", "train", "micro/a1", "--dry-run"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100, check=False
        )
    line = "codea1: standard output: No space left on device; free some space, or choose another place\n"
    assert (done.returncode, done.stderr) == (1, line)


# --- stops and waits ------------------------------------------------------------------------------------


def test_ctrl_c_during_the_warm_start_names_the_way_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("codea1_jax.training.policies.warm_start", lambda *_: signal.raise_signal(signal.SIGINT))
    assert cli.main(train_arguments(tmp_path / "run", f"warm_start_cache={tmp_path}")) == 130
    line = last_line(capsys.readouterr().err)
    assert line.startswith("codea1: stopped by SIGINT; continue with: codea1 train micro/a1_paper ")
    assert line.endswith(" --resume")


def test_what_takes_long_is_announced():
    log = [line.partition(" ")[2] for line in (first_run().parent / "log").read_text().splitlines()]
    assert log[0].endswith("run: starting the judge and checking the questions")
    assert [line for line in log if line.startswith("evaluating")] == [f"evaluating after step {i}" for i in (0, 2, 4)]


def test_resuming_a_finished_run_changes_none_of_its_figures(run_copy, capsys):
    before = {name: (run_copy / name).read_bytes() for name in ("summary.json", "metrics.jsonl")}
    assert cli.main([*train_arguments(run_copy), "--resume"]) == 0
    assert {name: (run_copy / name).read_bytes() for name in before} == before
    seconds = json.loads(before["summary.json"])["seconds"]
    base, trained = (line.split()[-1] for line in capsys.readouterr().out.splitlines()[2:4])
    assert (base, trained) == (f"{seconds['before_training']:.0f}", f"{seconds['total']:.0f}")


# --- tables ---------------------------------------------------------------------------------------------

FIGURES = {f"benchmark_{i}": {"value": 1234.5678, "low": -10.25, "high": 99.75} for i in range(9)}


@pytest.mark.parametrize("terminal", [False, True])
def test_a_table_shows_every_figure_whole_at_80_columns_and_plainly_in_a_pipe(terminal, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    if terminal:
        monkeypatch.setattr("rich.console.Console.is_terminal", True)
    print_table(results_table({"problems": FIGURES}))
    out = capsys.readouterr().out
    assert "…" not in out
    assert out.count("1234.57") == len(FIGURES)
    if not terminal:
        assert out.isascii()
        head, row, *rest = (line.split() for line in out.splitlines())
        assert head == [word for i in range(9) for word in ("benchmark", str(i))]
        assert row == ["problems", *["1234.57", "[-10.2,", "99.8]"] * 9]
        assert not any(rest)


# --- ports ----------------------------------------------------------------------------------------------


def test_a_port_in_use_is_one_line_before_the_weights_are_looked_for(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", "nowhere", "--port", str(port)]) == 1
        reason = "Address already in use; choose another port or host"
        assert capsys.readouterr().err == f"codea1: cannot listen for HTTP at 127.0.0.1 port {port}: {reason}\n"
        assert cli.main(["sandbox", "serve", "--port", str(port)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("address already in use; choose another --port")
