"""Whether a run fits the devices at hand, before anything is loaded onto them."""

from __future__ import annotations

import jax

from codea1_jax.config import Config
from codea1_jax.devices.chips import GIB
from codea1_jax.plan.arithmetic.memory import check_fits, least_memory
from codea1_jax.plan.arithmetic.planned_run import planned_run_on


def check_fits_here(config: Config) -> str | None:
    """What is needed and what the devices have, in words; None where they do not report it, as CPUs do not.

    Raises UserError if a phase needs more than one of them has.
    """
    stats = [device.memory_stats() for device in jax.local_devices()]
    limits = [each["bytes_limit"] for each in stats if each]
    if not limits:
        return None
    devices, available = jax.devices(), min(limits)
    run = planned_run_on(config, devices[0].platform, len(devices))
    phases = least_memory(run, cache=False)
    check_fits(run, phases, available, f"{len(devices)} x {devices[0].device_kind}")
    fullest = max(phases, key=phases.__getitem__)
    return f"{fullest} needs at least {phases[fullest] / GIB:.1f} of {available / GIB:.2f} GiB per chip"
