"""What this host has: packages, devices, memory, disk."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

from packaging.requirements import Requirement

from sandbox.doctor import Finding

DISTRIBUTION = "codea1-jax"
GIB = 2**30
_TOLD = ("jax", "jaxlib", "flax", "numpy", "transformers")  # whose versions everybody asks for
_CHECKED = (DISTRIBUTION, "jax", "flax")  # whose requirements must be met
_EXTRAS = ("cuda12", "cuda13", "eval", "jetstream", "plan", "serve", "tpu", "wandb")


def find_packages() -> Finding:
    """Whether the installed versions are those that the project, JAX and Flax ask for."""
    unmet = {requirement for name in _CHECKED for requirement in _unmet(name)}
    python = f"Python {sys.version.split()[0]}"
    if unmet:
        names = sorted(unmet)
        detail = f"{python}; " + ", ".join(f"{name} (here: {version(Requirement(name).name)})" for name in names)
        return Finding("packages", False, detail, "pip install " + " ".join(f"'{name}'" for name in names))
    told = ", ".join(f"{name} {version(name)}" for name in (DISTRIBUTION, *_TOLD))
    return Finding("packages", True, f"{python}, {told}")


def find_extras() -> Finding:
    """Which optional parts are installed."""
    missing = [extra for extra in _EXTRAS if _unmet(DISTRIBUTION, extra)]
    there = [extra for extra in _EXTRAS if extra not in missing]
    detail = f"installed: {', '.join(there) or 'none'}"
    if missing:
        detail += f"; not: {', '.join(missing)} (pip install 'codea1-jax[NAME]')"
    return Finding("extras", None, detail)


def find_devices() -> Finding:
    """The devices that JAX sees, and whether it overlooks an accelerator. Imports JAX, and starts its backend."""
    import jax  # noqa: PLC0415  versions are checked before it is imported

    try:
        devices = jax.devices()
    except RuntimeError as error:
        asked = os.environ.get("JAX_PLATFORMS", "")
        mend = f"unset JAX_PLATFORMS (it is {asked!r}), or pip install 'codea1-jax[cuda12]' or 'codea1-jax[tpu]'"
        return Finding("devices", False, str(error).strip().splitlines()[0], mend)
    kinds = sorted({device.device_kind for device in devices})
    detail = f"{len(devices)} x {', '.join(kinds)} ({devices[0].platform})"
    if jax.process_count() > 1:
        detail += f" on {jax.process_count()} hosts; {jax.local_device_count()} of them here"
    memory = [stats["bytes_limit"] for device in jax.local_devices() if (stats := device.memory_stats())]
    if memory:
        detail += f", {min(memory) / GIB:.1f} GiB each"
    extra = _overlooked(devices[0].platform)
    if extra is None:
        return Finding("devices", True, detail)
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return Finding("devices", None, f"{detail}; JAX_PLATFORMS=cpu leaves an accelerator unused")
    return Finding("devices", False, f"{detail}; an accelerator is not used", f"pip install 'codea1-jax[{extra}]'")


def find_memory() -> Finding:
    """Memory of the host."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    total, free = (int(fields[name].split()[0]) * 1024 / GIB for name in ("MemTotal", "MemAvailable"))
    return Finding("memory", None, f"{total:.1f} GiB, {free:.1f} of them free")


def find_disk(directory: Path, name: str, needed: float = 0.0) -> Finding:
    """Whether a directory, or what it would be made in, can be written to and has room for so many bytes."""
    there = directory.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    detail = f"{directory}: {free / GIB:.1f} GiB free"
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        return Finding(name, False, f"{directory}: nothing can be written in {there}", "choose another directory")
    if free < needed:
        mend = "make room, keep fewer (checkpoint.keep_last=1), or save elsewhere (checkpoint.directory=...)"
        return Finding(name, False, f"{detail}, {needed / GIB:.1f} needed", mend)
    return Finding(name, True, detail)


def version(name: str) -> str:
    """The installed version of a package, or "none"."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _unmet(distribution: str, extra: str = "") -> list[str]:
    """What an installed package, or an extra of it, requires and is not there as required."""
    if version(distribution) == "none":
        return [distribution]
    unmet = []
    for requirement in map(Requirement, importlib.metadata.requires(distribution) or ()):
        if _is_of(requirement, extra):
            unmet += [] if _is_met(requirement) else [f"{requirement.name}{requirement.specifier}"]
            unmet += [deep for inner in requirement.extras for deep in _unmet(requirement.name, inner)]
    return unmet


def _is_of(requirement: Requirement, extra: str) -> bool:
    """Whether it is one of this extra's; of no extra's if that is empty."""
    marker = requirement.marker
    always = marker is None or marker.evaluate({"extra": ""})
    return always if not extra else not always and marker is not None and marker.evaluate({"extra": extra})


def _is_met(requirement: Requirement) -> bool:
    here = version(requirement.name)
    return here != "none" and requirement.specifier.contains(here, prereleases=True)


def _overlooked(platform: str) -> str | None:
    """The extra for an accelerator that is here while JAX uses the CPU; None if there is none."""
    from jax._src import hardware_utils  # noqa: PLC0415  what JAX's own warning looks at has no public name

    if platform != "cpu":
        return None
    if hardware_utils.has_visible_nvidia_gpu():
        return "cuda12"
    chips, _ = hardware_utils.num_available_tpu_chips_and_device_id()
    return "tpu" if chips else None
