from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from codea1_jax.common.chips import GIB
from codea1_jax.common.errors import UserError
from codea1_jax.runtime.devices import DeviceUnavailable, start_devices, tpus
from sandbox.host.doctor import Finding

if TYPE_CHECKING:
    from codea1_jax.config import HostsConfig

DISTRIBUTION = "codea1-jax"
_REPORTED = ("jax", "jaxlib", "flax", "numpy", "transformers")  # whose versions everybody asks for
_CHECKED = (DISTRIBUTION, "jax", "flax")  # whose requirements must be met


def find_packages() -> Finding:
    unmet = {requirement for name in _CHECKED for requirement in _unmet(name)}
    python = f"Python {sys.version.split()[0]}"
    if unmet:
        names = sorted(unmet)
        detail = f"{python}; " + ", ".join(f"{name} (here: {version(Requirement(name).name)})" for name in names)
        return Finding("packages", False, detail, "pip install " + " ".join(f"'{name}'" for name in names))
    versions = ", ".join(f"{name} {version(name)}" for name in (DISTRIBUTION, *_REPORTED))
    return Finding("packages", True, f"{python}, {versions}")


@dataclass(frozen=True)
class Devices:
    """The devices of all hosts, which are alike. platform: as JAX calls it."""

    platform: str
    count: int


def count_hosts(settings: HostsConfig) -> int:
    """How many hosts the run has by its configuration, a TPU pod's environment or SLURM; contacts none of them."""
    if settings.count is not None:
        return settings.count
    if "TPU_WORKER_HOSTNAMES" in os.environ:
        return len(os.environ["TPU_WORKER_HOSTNAMES"].split(",")) * int(os.environ.get("MEGASCALE_NUM_SLICES", "1"))
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1"))


def find_devices(hosts: int) -> tuple[Finding, Devices | None]:
    """The devices of this host, one of `hosts`. Starts JAX's backend.

    A TPU of several hosts is not started, since its runtime would wait for all of them: JAX is left to the CPU.
    """
    import jax  # noqa: PLC0415  versions are checked before it is imported

    chips, here = tpus()
    if hosts > 1 and chips:
        jax.config.update("jax_platforms", "cpu")
        detail = f"{chips} TPU chips, on one of {hosts} hosts (not started: that takes all hosts at once)"
        return Finding("devices", True, detail), Devices("tpu", here * hosts)
    try:
        start_devices()
    except (UserError, DeviceUnavailable) as fault:
        cause, _, fix = str(fault).rpartition("; ")
        return Finding("devices", False, cause, fix), None
    devices = jax.devices()
    counted = Devices(devices[0].platform, len(devices) * hosts)
    kinds = sorted({device.device_kind for device in devices})
    detail = f"{len(devices)} x {', '.join(kinds)} ({counted.platform})"
    if hosts > 1:
        detail += f", on one of {hosts} hosts"
    memory = [stats["bytes_limit"] for device in devices if (stats := device.memory_stats())]
    if memory:
        detail += f", {min(memory) / GIB:.1f} GiB each"
    return Finding("devices", True, detail), counted


def find_memory() -> Finding:
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    total, free = (int(fields[name].split()[0]) * 1024 / GIB for name in ("MemTotal", "MemAvailable"))
    return Finding("memory", None, f"{total:.1f} GiB, {free:.1f} of them free")


def existing(directory: Path) -> Path:
    return next(each for each in (directory.absolute(), *directory.absolute().parents) if each.exists())


def find_disk(directory: Path, name: str, purpose: str = "", needed: int = 0) -> Finding:
    """Whether a directory, or what it would be made in, can be written to and has room for that many bytes."""
    there = existing(directory)
    free = shutil.disk_usage(there).free
    detail = f"{directory}: {free / GIB:.1f} GiB free" + (f", for {purpose}" if purpose else "")
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        return Finding(name, False, f"{directory}: nothing can be written in {there}", "choose another directory")
    if free < needed:
        fix = "make room, keep fewer (checkpoint.keep_last=1), or save elsewhere (checkpoint.directory=...)"
        return Finding(name, False, f"{detail}: {needed / GIB:.1f} GiB", fix)
    return Finding(name, True, detail)


def version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _unmet(distribution: str) -> list[str]:
    if version(distribution) == "none":
        return [distribution]
    required = map(Requirement, importlib.metadata.requires(distribution) or ())
    needed = [each for each in required if each.marker is None or each.marker.evaluate({"extra": ""})]
    here = {each.name: version(each.name) for each in needed}
    return [
        f"{each.name}{each.specifier}"
        for each in needed
        if here[each.name] == "none" or not each.specifier.contains(here[each.name], prereleases=True)
    ]
