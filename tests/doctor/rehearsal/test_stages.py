"""A whole run in small: it begins, stops, resumes elsewhere and at home, ends and exports; or its fault is named."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from gcs_emulator import running_emulator
from tiny_run import ROOT, SETTINGS, finish, start_codea1, start_script

from codea1_jax import cli
from codea1_jax.common.chips import find_hardware
from codea1_jax.common.errors import UserError
from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, load
from codea1_jax.doctor.rehearsal.pod import Pod
from codea1_jax.doctor.rehearsal.rehearsal import Rehearsal, Stage, prepare

STAGES = (
    *("data", "mesh", "model", "settings", "checkpoints"),
    *("first step, SIGTERM in the second", "resumed on another mesh, SIGTERM", "resumed to the end, evaluated, saved"),
)


def rehearsal_of(preset: str, directory: Path, *overrides: str, devices: int = 1, hosts: int = 1) -> Rehearsal:
    def reload(more) -> Config:
        return load(Config, preset, [*overrides, *more])

    prepare(directory)
    return Rehearsal(reload(()), reload, devices, hosts, directory)


@pytest.mark.long
def test_a_run_on_two_hosts_is_rehearsed_from_its_first_step_to_its_export(tmp_path):
    rehearsal = rehearsal_of("micro/a1_paper", tmp_path / "rehearsal", *SETTINGS, devices=2, hosts=2)
    stages = list(rehearsal.stages())
    assert [stage.name for stage in stages if stage.works] == [*STAGES, "export code", "export test"], stages[-1]
    metrics = read_lines(tmp_path / "rehearsal" / "run" / "metrics.jsonl")
    assert [line["step"] for line in metrics if line["kind"] == "train"] == [1, 2, 3]
    assert [line["step"] for line in metrics if line["kind"] == "eval"] == [0, 3]
    exported = ("export-code-hf", "export-test-hf")
    assert all((tmp_path / "rehearsal" / name / "model.safetensors").exists() for name in exported)
    assert {path.name for path in (tmp_path / "rehearsal" / "logs").glob("moved*")} == {"moved-0.log"}


# --- planted faults ---------------------------------------------------------------------------------------


def last(rehearsal: Rehearsal) -> Stage:
    *before, stage = rehearsal.stages()
    assert all(each.works for each in before) and not stage.works
    return stage


@pytest.mark.parametrize(
    ("mesh", "reason"),
    [
        ("{replica: 1, fsdp: 4, tensor: 8}", "mesh.tensor=8 does not divide num_heads=28: set mesh.tensor to 7"),
        ("{replica: 1, fsdp: 3, tensor: 1}", "does not fit 32 devices"),
    ],
)
def test_a_mesh_that_does_not_divide_the_model_or_the_devices_is_named(tmp_path, mesh, reason):
    (tmp_path / "rows.jsonl").write_text("")
    data = f"data.source={tmp_path / 'rows.jsonl'}"
    stage = last(rehearsal_of("7b/a1_v5e", tmp_path / "rehearsal", data, f"mesh={mesh}", devices=32))
    assert stage.name == "mesh" and reason in stage.detail


def test_a_bucket_without_permission_is_named_before_anything_runs(tmp_path, monkeypatch):
    with running_emulator() as emulator:
        for name, value in emulator.environment.items():
            monkeypatch.setenv(name, value)
        emulator.fault = lambda: "403"
        stage = last(rehearsal_of("micro/a1", tmp_path / "rehearsal", "checkpoint.directory=gs://bucket/runs"))
    assert stage.name == "checkpoints" and "cannot write to gs://bucket/runs" in stage.detail
    assert "Forbidden" in stage.detail
    assert not (tmp_path / "rehearsal" / "run").exists()


def test_too_few_descriptors_for_the_judge_are_named(tmp_path, monkeypatch, capsys):
    limited = tmp_path / "python"
    limited.write_text(f'#!{shutil.which("bash")}\nulimit -n 400\nexec {sys.executable} "$@"\n')
    limited.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(limited))  # of the run's processes
    here = str(tmp_path / "here")
    assert cli.main(["rehearse", "micro/golden", *SETTINGS, "sandbox.workers=200", "--directory", here]) == 1
    shown = "".join(capsys.readouterr()).splitlines()
    (line,) = (line for line in shown if line.startswith("FAIL first step"))  # once
    assert "more file descriptors" in line


def test_a_fault_of_the_run_itself_fails_its_stage_in_the_runs_words(tmp_path):
    broken = tmp_path / "rows.jsonl"
    broken.write_text("not a problem\n")
    rehearsal = rehearsal_of("micro/a1_paper", tmp_path / "rehearsal", *SETTINGS, f"data.source={broken}")
    stage = last(rehearsal)
    assert stage.name == "first step, SIGTERM in the second" and str(broken) in stage.detail


# --- where things are -------------------------------------------------------------------------------------


def test_a_policy_that_starts_from_a_run_starts_from_random_weights(tmp_path):
    rehearsal = rehearsal_of("1.5b/a1_from_sft", tmp_path / "rehearsal")
    rehearsed = load(Config, rehearsal._settings())
    assert (rehearsed.test.start, rehearsed.code.start) == (str(tmp_path / "rehearsal" / "model"), None)


def test_only_an_earlier_rehearsal_is_replaced(tmp_path):
    prepare(tmp_path / "fresh")
    (tmp_path / "fresh" / "old").write_text("")
    prepare(tmp_path / "fresh")
    assert not (tmp_path / "fresh" / "old").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(UserError, match="already exists and holds no rehearsal"):
        prepare(tmp_path / "mine")


@pytest.mark.parametrize(
    ("name", "hosts", "processes"),
    [
        ("v5e:2x4", 1, 1),
        ("v5e:4x4", 4, 4),
        ("v5p:2x2x4", 4, 4),
        ("v6e:8x8", 16, 4),
        ("tpu7x:2x2x2", 2, 2),
        ("h100:8", 1, 1),
        ("h100:24", 3, 3),
    ],
)
def test_a_pod_has_a_process_for_each_host_up_to_four(tmp_path, name, hosts, processes):
    hardware = find_hardware(name)
    assert hardware.hosts == hosts
    rehearsal = rehearsal_of("1.5b/a1", tmp_path / "rehearsal", devices=hardware.devices, hosts=hardware.hosts)
    assert (rehearsal._pod.processes, rehearsal._pod.devices) == (processes, hardware.devices)


@pytest.mark.parametrize(
    ("mesh", "devices", "moved"),
    [
        ("{fsdp: 8}", 8, ("mesh.replica=1", "mesh.fsdp=4", "mesh.tensor=1")),
        ("{fsdp: 1, tensor: 2}", 2, ("mesh.replica=1", "mesh.fsdp=1", "mesh.tensor=1")),
        ("{replica: 2, fsdp: 1}", 2, ("mesh.replica=1", "mesh.fsdp=1", "mesh.tensor=1")),
        ("{fsdp: 1}", 1, ("mesh.replica=1", "mesh.fsdp=2", "mesh.tensor=1")),
    ],
)
def test_another_mesh_is_another_one_that_has_its_devices(tmp_path, mesh, devices, moved):
    rehearsal = rehearsal_of("1.5b/a1", tmp_path / "rehearsal", f"mesh={mesh}", devices=devices)
    pod, overrides = rehearsal._other_mesh()
    assert isinstance(pod, Pod) and overrides == moved
    load(Config, "1.5b/a1", overrides).mesh.shape(pod.devices)


def test_the_command_says_what_failed(tmp_path, capsys):
    arguments = ("rehearse", "1.5b/a1_v5e", f"data.source={tmp_path / 'none'}", "--directory", str(tmp_path / "here"))
    assert cli.main([*arguments, "--json"]) == 1
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document["passed"], document["failed"]) == ([], ["data"])
    assert document["not_exercised"][: len(STAGES)] == [*STAGES[1:], "export code"]
    assert any("codea1 plan" in line for line in document["not_exercised"])
    assert err.splitlines()[-1].startswith("FAIL data (0 s): data.source: ")


WITH_QWENS_VOCABULARY = """
import sys
from codea1_jax.cli import main
from codea1_jax.doctor.rehearsal import rehearsal
from qwen_vocabulary import make_tokenizer, read_merges
rehearsal.resolve = lambda *_: None
rehearsal.load_tokenizer = lambda _: make_tokenizer(read_merges())
sys.exit(main())
"""


@pytest.mark.long
def test_a_preset_of_a_pod_is_rehearsed_on_real_rows_with_qwens_vocabulary(real_rows, tmp_path):
    rows = json.loads(real_rows.kodcode.read_text())
    (tmp_path / "kodcode.json").write_text(json.dumps(rows))
    out = ("--out", str(tmp_path / "data"), "--difficulty", "easy", "medium", "hard")
    finish(start_codea1("data", "prepare", "kodcode", "--source", str(tmp_path / "kodcode.json"), *out))
    data = (f"data.source={tmp_path / 'data' / 'kodcode'}", f"eval.datasets=[{real_rows.evalplus}]")
    command = ("rehearse", "1.5b/a1_v5e", *data, "--directory", str(tmp_path / "here"), "--json")
    process = start_script("-c", WITH_QWENS_VOCABULARY, *command, PYTHONPATH=f"{ROOT}:{ROOT / 'tests' / 'support'}")
    out, err = process.communicate(timeout=3000)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert document["passed"] == [*STAGES, "export code", "export test"] and document["failed"] == []
