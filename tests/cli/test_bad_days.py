"""What a user meets when something is not right: one line that names it, the right exit code, and nothing lost."""

import re
import shutil
from pathlib import Path

import pytest
from tiny_run import start_codea1, start_script, train_arguments

from codea1_jax import cli

STEPS = ("train.steps=2", "checkpoint.every=1", "eval.every=1")


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written to a relative path lands here; compiled programs and log handlers stay as they are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("codea1_jax.cli.train.keep_compiled_programs", lambda: None)
    monkeypatch.setattr("codea1_jax.console.log_to_stderr", lambda *_: None)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished run of two steps."""
    directory = tmp_path_factory.mktemp("finished") / "run"
    process = start_codea1(*train_arguments(directory, *STEPS))
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return directory


@pytest.fixture
def run_copy(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of it to be damaged."""
    return shutil.copytree(finished_run, tmp_path / "run")


def failed(process, code: int = 1) -> str:
    """The last line of a command that failed; what comes before it may only be the log."""
    _, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    *log, line = err.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", text) for text in log), err
    assert line.startswith("codea1: ")
    return line


# --- storage ------------------------------------------------------------------------------------------

# Writes past 4096 bytes fail as on a full disk from the second checkpoint on.
FULL_DISK = """
import resource, signal, sys
from codea1_jax import cli
from codea1_jax.checkpoint.checkpoints import Checkpoints

save = Checkpoints.save

def save_on_a_full_disk(checkpoints, step, *content):
    checkpoints.wait()
    if step > 1:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    save(checkpoints, step, *content)

Checkpoints.save = save_on_a_full_disk
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_full_disk_ends_training_with_one_line(tmp_path):
    line = failed(start_script("-c", FULL_DISK, *train_arguments(tmp_path / "run", *STEPS)))
    assert line == (
        f"codea1: cannot save to {tmp_path / 'run' / 'checkpoints'}: File too large (steps that are saved: [1]); "
        "free some space or fix the storage, then continue with --resume"
    )


def test_a_checkpoint_with_a_shortened_file_is_reported_as_damaged_in_one_line(run_copy, capsys):
    arrays = run_copy / "checkpoints" / "2" / "arrays"
    largest = max((path for path in arrays.rglob("d/*")), key=lambda path: path.stat().st_size)
    with largest.open("r+b") as file:
        file.truncate(largest.stat().st_size // 3)
    damage = f"'arrays' cannot be read ({largest.relative_to(arrays)} is missing or too short)"

    assert cli.main(["checkpoint", "ls", str(run_copy)]) == 1
    good, damaged = capsys.readouterr().out.splitlines()
    assert good.split()[:2] == ["1", "avg_at_n"] and damage in damaged
    assert cli.main(["checkpoint", "show", str(run_copy)]) == 1
    assert damage in capsys.readouterr().err
    assert cli.main(["checkpoint", "show", str(run_copy), "--step", "1"]) == 0
    line = failed(start_codea1(*train_arguments(run_copy, *STEPS), "--resume"))
    assert f"{damage}; step 1 is good" in line


def test_a_checkpoint_with_overwritten_bytes_is_reported_as_damaged_in_one_line(run_copy):
    for path in (run_copy / "checkpoints" / "2" / "arrays" / "ocdbt.process_0").rglob("d/*"):
        path.write_bytes(bytes(path.stat().st_size))
    line = failed(start_codea1("convert", str(run_copy), str(run_copy / "exported"), "--role", "code"))
    assert "is damaged: 'arrays' cannot be read (" in line and "spec" not in line
