"""The devices that JAX is to use here; what is missing, busy, unsupported or too small is one line with a fix."""

import ctypes
import os
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codea1_jax.common.chips import CHIPS, OLDEST_GPU, compute_capability
from codea1_jax.common.errors import UserError

PLATFORMS = "JAX_PLATFORMS"
# What JAX, XLA and libtpu write where there is no device; other reasons may pass, as when another process holds it.
_ABSENT = r"known backends|No jellyfish device|no devices|supported devices|No visible GPU|CUDA_ERROR_NO_DEVICE"
_GOOGLE = "0x1ae0\n"  # a vendor on the PCI bus
_TPUS = {"0x005e": "v4", "0x0062": "v5p", "0x0063": "v5e", "0x006f": "v6e", "0x0076": "tpu7x"}  # its devices


class DeviceUnavailable(OSError):
    """A device is here, but it does not start, as when another process holds it."""


class DeviceMemoryError(OSError):
    """An array, or a program's temporaries, did not fit."""


Fault = UserError | DeviceUnavailable
"""Why there are no devices: the cause, "; " and the fix. Where the same command may succeed later, the second."""


def start_devices() -> None:
    """Starts JAX's backend. Must be called once the processes of a run have met.

    Raises UserError if the devices that are asked for are not here or not supported, DeviceUnavailable if they do not
    start.
    """
    import jax  # noqa: PLC0415  commands that need no devices import this module

    with faults_named():
        devices = jax.devices()
    fault = unsupported(devices[0])
    if fault is None and os.environ.get(PLATFORMS) != "cpu":
        fault = overlooked(devices[0].platform)
    if fault is not None:
        raise fault


def return_freed_memory() -> None:
    """Gives the system what arrays on a CPU no longer need: glibc keeps what lies below anything still in use."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


@contextmanager
def faults_named() -> Iterator[None]:
    """Turns JAX's errors about devices into UserError or DeviceUnavailable; all others pass as they are."""
    try:
        yield
    except (RuntimeError, AssertionError) as error:
        if (fault := fault_of(error)) is None:
            raise
        raise fault from error


@contextmanager
def shortage_named() -> Iterator[None]:
    """Turns XLA's error into DeviceMemoryError; all others pass as they are."""
    try:
        yield
    except RuntimeError as error:
        if not is_shortage(error):
            raise
        raise DeviceMemoryError(
            f"out of device memory ({str(error).splitlines()[0]}); make rollout.cache_tokens or "
            "packing.micro_batch_tokens smaller, or spread the models over more devices with mesh.fsdp; `codea1 plan` "
            "shows what a run needs"
        ) from error


def is_shortage(error: RuntimeError) -> bool:
    """Whether XLA could not allocate; only the text of a jax.errors.JaxRuntimeError shows it."""
    return type(error).__name__ == "JaxRuntimeError" and str(error).startswith("RESOURCE_EXHAUSTED")


def fault_of(error: BaseException) -> Fault | None:
    """What an error of JAX's means for the devices; None if it is about something else."""
    if isinstance(error, AssertionError):  # how JAX ends where CUDA is asked for and no GPU is visible
        frames = traceback.extract_tb(error.__traceback__)
        known = bool(frames) and frames[-1].filename.endswith("xla_bridge.py")
        return _missing("no NVIDIA GPU is visible") if known else None
    reason = re.match(r"Unable to initialize backend '.*?': (.*?)\.?(?: \((?:set|you may) .*\))?$", _first_line(error))
    if not isinstance(error, RuntimeError) or reason is None:
        return None
    if re.search(_ABSENT, reason[1]):
        return _missing(reason[1])
    return DeviceUnavailable(
        f"the device does not start ({reason[1]}); end the process that holds it, which `nvidia-smi` or "
        "`lsof /dev/accel* /dev/vfio/*` shows, and try again"
    )


def unsupported(device: Any) -> UserError | None:
    if not hasattr(device, "compute_capability"):  # not a GPU
        return None
    capability = compute_capability(device)
    if capability is None:
        return UserError(f"{device.device_kind}: only NVIDIA's GPUs are supported; set {PLATFORMS}=cpu to use the CPU")
    if capability < OLDEST_GPU:
        here, least = ("{}.{}".format(*numbers) for numbers in (capability, OLDEST_GPU))
        return UserError(
            f"{device.device_kind}: its compute capability is {here}, and the kernels need {least} or later; use a GPU "
            f"of 2020 or later (A100, RTX 30, A10, L4 and newer), or set {PLATFORMS}=cpu to use the CPU"
        )
    return None


def overlooked(platform: str) -> DeviceUnavailable | None:
    """Why JAX uses `platform`, the CPU, though an accelerator is here; None if there is none.

    Without a TPU on the bus a libtpu that does not start says nothing: it may be installed to plan for TPUs.
    """
    accelerators = {"cuda": "an NVIDIA GPU", **({"tpu": "a TPU"} if tpus()[0] else {})}
    for name, kind in accelerators.items() if platform == "cpu" else ():
        reason = _why_not(name)
        if reason is not None and not re.search(_ABSENT, reason):
            return DeviceUnavailable(
                f"{kind} is here, but does not start ({reason}); end the process that holds it or check its driver, or "
                f"set {PLATFORMS}=cpu to use the CPU"
            )
    return None


def tpus(buses: Path = Path("/sys/bus/pci/devices")) -> tuple[int, int]:
    """The TPU chips on this host's bus, and how many devices they are."""
    ids = [path.with_name("device").read_text() for path in buses.glob("*/vendor") if path.read_text() == _GOOGLE]
    chips = [CHIPS[_TPUS[name.strip()]] for name in ids if name.strip() in _TPUS]
    return len(chips), sum(chip.cores for chip in chips)


def _missing(reason: str) -> UserError:
    return UserError(
        f"{PLATFORMS}={os.environ.get(PLATFORMS, '')}: there is no such device here ({reason}); unset it, set it to "
        "cpu, or install what JAX needs for the device: codea1-jax[cuda12], codea1-jax[cuda13] or codea1-jax[tpu]"
    )


def _why_not(platform: str) -> str | None:
    import jax  # noqa: PLC0415  as above

    try:
        jax.devices(platform)
    except RuntimeError as error:
        reason = re.match(r"Backend '.*?' failed to initialize: (.*?)(\.+ Available backends.*)?$", _first_line(error))
        return reason[1] if reason else None
    return None


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
