"""Devices that are missing, busy or not supported: one line with the fix, in every command."""

import os
import subprocess
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from codea1_jax import cli
from codea1_jax.common.errors import UserError
from codea1_jax.runtime.devices import (
    DeviceUnavailable,
    fault_of,
    faults_named,
    overlooked,
    shortage_named,
    start_devices,
    tpus,
    unsupported,
)

# What JAX has been seen to raise, after the name of the backend, and whether the device is merely busy.
SEEN = [
    ("Backend 'tppu' is not in the list of known backends: ['cpu', 'tpu'].", False),
    ("NOT_FOUND: TPU initialization failed: No jellyfish device found.", False),
    ("FAILED_PRECONDITION: No visible GPU devices.", False),
    ("INTERNAL: no supported devices found for platform CUDA", False),
    ("ABORTED: The TPU is already in use by process with pid 4242.", True),
    ("ABORTED: Internal error when accessing libtpu multi-process lockfile. Run ...", True),
    ("INTERNAL: CUDA_ERROR_DEVICE_UNAVAILABLE: CUDA-capable device(s) is/are busy or unavailable", True),
]
ADVICE = " (set JAX_PLATFORMS='' to automatically choose an available backend)"


@pytest.mark.parametrize(("reason", "passing"), SEEN)
def test_what_jax_raises_becomes_one_line_with_the_fix_and_the_exit_code(reason, passing, monkeypatch, capsys):
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")

    def fail(*_):
        raise RuntimeError(f"Unable to initialize backend 'tpu': {reason}{ADVICE}\nand more")

    monkeypatch.setattr("codea1_jax.cli.presets._run", fail)
    assert cli.main(["presets"]) == (1 if passing else 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert reason.rstrip(".") in line and ADVICE not in line and "and more" not in line
    assert "try again" in line if passing else line.startswith("codea1: JAX_PLATFORMS=tpu: there is no such device")


def test_other_errors_pass_as_they_are():
    for error in (RuntimeError("the weights are odd"), AssertionError("a defect"), ValueError("Unable to initialize")):
        assert fault_of(error) is None
        with pytest.raises(type(error), match=str(error)), faults_named():
            raise error


@pytest.mark.parametrize("asked", ["cuda", pytest.param("cpuu", marks=pytest.mark.long)])
def test_a_device_that_is_not_here_is_one_line_of_doctor_and_of_other_commands(asked, tmp_path):
    """In processes of their own, for JAX starts once: `cuda` fails another way than other names."""
    environment = os.environ | {"JAX_PLATFORMS": asked, "CUDA_VISIBLE_DEVICES": ""}
    commands = ["doctor"], ["train", "micro/a1", "run.directory=run"], ["serve", "nothing"]
    program = f"import sys\nfrom codea1_jax import cli\nfor words in {commands!r}:\n    print('code', cli.main(words))"
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100)
    assert "Traceback" not in done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("code ")] == ["code 1", "code 2", "code 2"]
    assert f"FAIL devices          JAX_PLATFORMS={asked}: there is no such device here" in done.stdout
    assert "-> unset it, set it to cpu, or install" in done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("codea1: ")]
    assert len(lines) == 2 and all(line.startswith(f"codea1: JAX_PLATFORMS={asked}: ") for line in lines)
    assert not (tmp_path / "run").exists()


def as_devices(monkeypatch, **attributes):
    device = SimpleNamespace(**{"platform": "cpu", "device_kind": "cpu"} | attributes)
    monkeypatch.setattr(jax, "devices", lambda *platform: [device])


def test_an_accelerator_that_does_not_start_is_not_replaced_by_the_cpu(monkeypatch):
    here = jax.devices()

    def fail(platform=None):
        if platform is None:
            return here
        raise RuntimeError(f"Backend 'cuda' failed to initialize: {reason}. Available backends are ['cpu']")

    monkeypatch.setattr(jax, "devices", fail)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    reason = "INTERNAL: the card is busy"
    with pytest.raises(DeviceUnavailable, match=r"does not start \(INTERNAL: the card is busy\); .*cpu"):
        start_devices()
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    start_devices()  # as asked
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    reason = "NOT_FOUND: no devices"  # a plugin without its card
    start_devices()
    assert overlooked("gpu") is None


@pytest.mark.parametrize("chips", [0, 4])
def test_a_libtpu_that_does_not_start_matters_only_where_there_is_a_tpu(chips, monkeypatch):
    def fail(platform):
        raise RuntimeError(
            f"Unknown backend {platform}. Available backends are ['cpu']"
            if platform == "cuda"
            else "Backend 'tpu' failed to initialize: ABORTED: lockfile.. Available backends are ['cpu']"
        )

    monkeypatch.setattr(jax, "devices", fail)
    monkeypatch.setattr("codea1_jax.runtime.devices.tpus", lambda: (chips, chips))
    assert (overlooked("cpu") is not None) == bool(chips)


def test_the_chips_of_a_tpu_are_counted_on_the_bus(tmp_path):
    for index, (vendor, device) in enumerate([("0x1ae0", "0x005e")] * 4 + [("0x1ae0", "0x0042"), ("0x8086", "0x005e")]):
        (tmp_path / str(index)).mkdir()
        (tmp_path / str(index) / "vendor").write_text(f"{vendor}\n")
        (tmp_path / str(index) / "device").write_text(f"{device}\n")
    assert tpus(tmp_path) == (4, 8)
    assert tpus(tmp_path / "none") == (0, 0)


@pytest.mark.parametrize(
    ("capability", "refused"),
    [
        ("7.5", "7.5, and the kernels need 8.0"),
        ("6.1", "6.1, and"),
        ("gfx942", "only NVIDIA"),
        ("8.0", ""),
        ("12.0", ""),
    ],
)
def test_a_card_without_kernels_is_refused_at_the_start(capability, refused, monkeypatch):
    as_devices(monkeypatch, platform="gpu", device_kind="Some card", compute_capability=capability)
    if not refused:
        start_devices()
        return
    with pytest.raises(UserError, match=f"Some card: .*{refused}.*JAX_PLATFORMS=cpu"):
        start_devices()


def test_a_cpu_and_a_tpu_have_no_compute_capability(monkeypatch):
    assert unsupported(jax.devices()[0]) is None


TOO_MUCH = 1 << 58  # bytes


def allocate(*_: object) -> int:
    return int(jnp.ones(TOO_MUCH, jnp.uint8)[0])


def test_a_shortage_is_one_line_with_its_cure(capsys, monkeypatch):
    monkeypatch.setattr("codea1_jax.cli.presets._run", allocate)
    assert cli.main(["presets"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("codea1: out of device memory (RESOURCE_EXHAUSTED: ") and str(TOO_MUCH) in line
    assert "packing.micro_batch_tokens" in line


def test_another_error_that_speaks_of_one_passes():
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"), shortage_named():
        raise jax.errors.JaxRuntimeError("INTERNAL: after RESOURCE_EXHAUSTED elsewhere")


FREED = """
import numpy as np
from codea1_jax.runtime.devices import return_freed_memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

arrays = [np.ones(30 << 20, np.uint8)]
arrays.clear()  # from here on glibc puts arrays of this size into its heap
kept = []
for _ in range(40):
    arrays.append(np.ones(8 << 20, np.uint8))
    kept.append(np.ones(1 << 16, np.uint8))
arrays.clear()
held = resident()
return_freed_memory()
print(held - resident())
"""


def test_memory_between_arrays_that_are_still_in_use_goes_back_to_the_system():
    ended = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    assert int(ended.stdout) > 200  # MiB, of 320
