"""A whole run whose checkpoints are in a bucket: of an emulator that fails now and then."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from gcs_emulator import Emulator, random_faults, running_emulator
from tiny_run import assert_same_end, finish, start_codea1, steps_done, train_arguments, wait_until, without_times

from codea1_jax import cli

BUCKET = "checkpoint.directory=gs://bucket/runs/tiny"


@pytest.fixture
def emulator():
    with running_emulator() as emulator:
        yield emulator


def download(emulator: Emulator, directory: Path) -> Path:
    for (_, name), stored in emulator.objects.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored.data)
    return directory / "runs" / "tiny"


@pytest.mark.long
def test_a_run_killed_and_gone_on_with_elsewhere_ends_like_one_with_a_disk(emulator, tmp_path):
    undisturbed = start_codea1(*train_arguments(tmp_path / "local"))
    arguments = train_arguments(tmp_path / "run", BUCKET)
    process = start_codea1(*arguments, environment=emulator.environment)
    wait_until(lambda: steps_done(tmp_path / "run") >= 3, process)
    wait_until(lambda: "bucket/runs/tiny/2/commit_success.txt" in emulator.names(), process)
    process.kill()
    process.communicate()
    shutil.rmtree(tmp_path / "run")  # with the host that is gone
    emulator.fault = random_faults(seed=3, share=0.05)
    finish(start_codea1(*arguments, "--resume", environment=emulator.environment))
    assert emulator.faults > 5
    finish(undisturbed)
    assert without_times(tmp_path / "run") == without_times(tmp_path / "local")
    assert_same_end(download(emulator, tmp_path / "bucket"), tmp_path / "local" / "checkpoints", 4)


@pytest.fixture
def two_steps(emulator, tmp_path):
    """The arguments of a run that has saved two steps in the bucket."""
    arguments = train_arguments(tmp_path / "run", BUCKET, "train.steps=2", "checkpoint.every=1", "eval.every=0")
    finish(start_codea1(*arguments, environment=emulator.environment))
    return arguments


@pytest.mark.long
def test_a_step_that_is_not_complete_is_no_step(two_steps, emulator, tmp_path):
    """All that was written of a step but the mark that it is complete: the run is not resumed from it."""
    del emulator.objects["bucket", "runs/tiny/2/commit_success.txt"]
    finish(start_codea1(*two_steps, "--resume", environment=emulator.environment))
    assert "bucket/runs/tiny/2/commit_success.txt" in emulator.names()
    assert [line["step"] for line in without_times(tmp_path / "run") if line["kind"] == "train"] == [1, 2]


@pytest.mark.long
def test_a_run_is_read_from_the_bucket_alone_at_the_step_that_is_named(two_steps, emulator, tmp_path):
    """As on hardware that evaluates what was trained elsewhere."""
    kept = emulator.objects["bucket", "runs/tiny/1/commit_success.txt"]
    config = (tmp_path / "run" / "config.yaml").read_bytes()
    emulator.objects["bucket", "runs/first/run/config.yaml"] = replace(kept, data=config)
    shutil.rmtree(tmp_path / "run")

    def converted(name: str) -> bytes:
        words = ("convert", f"gs://bucket/runs/first/run{name}", str(tmp_path / f"model{name}"), "--role=code")
        finish(start_codea1(*words, environment=emulator.environment))
        return (tmp_path / f"model{name}" / "model.safetensors").read_bytes()

    assert converted("") == converted("@2") != converted("@1")


@pytest.mark.parametrize(
    ("directory", "reason"),
    [
        ("gs://nobodys/run", "gs://nobodys/run: there is no bucket nobodys; create the bucket"),
        ("gs://bucket", "gs://bucket is not a gs://bucket/path"),
    ],
)
def test_a_bucket_that_cannot_be_written_to_is_one_line_before_anything_else(
    directory, reason, emulator, tmp_path, monkeypatch, capsys
):
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    assert cli.main(train_arguments(tmp_path / "run", f"checkpoint.directory={directory}")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("codea1: checkpoint.directory: ") and reason in line
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_missing_credentials_are_one_line_before_anything_else(emulator, tmp_path):
    emulator.private = True
    nobody = {"HOME": str(tmp_path), "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none.json")}
    environment = {name: value for name, value in emulator.environment.items() if "TOKEN" not in name}
    arguments = train_arguments(tmp_path / "run", BUCKET)
    process = start_codea1(*arguments, environment=environment | nobody | {"NO_GCE_CHECK": "true"})
    (said,) = process.communicate()[1].splitlines()
    assert process.returncode == 2
    assert said.startswith("codea1: checkpoint.directory: cannot write to gs://bucket/runs/tiny (")
    assert "Anonymous caller" in said and "gcloud auth application-default login" in said
    assert not (tmp_path / "run").exists()
