from dataclasses import dataclass

from codea1_jax.common.chips import find_hardware
from launch.shell import Refused

# By kind: its name in types of accelerators, what a chip counts for there, and its runtime
# (cloud.google.com/tpu/docs/runtimes).
KINDS = {
    "v4": ("v4", 2, "tpu-ubuntu2204-base"),
    "v5e": ("v5litepod", 1, "v2-alpha-tpuv5-lite"),
    "v5p": ("v5p", 2, "v2-alpha-tpuv5"),
    "v6e": ("v6e", 1, "v2-alpha-tpuv6e"),
}


@dataclass(frozen=True)
class Slice:
    name: str
    accelerator_type: str
    runtime: str


def find_slice(name: str) -> Slice:
    """The slice called `name`, as in v5e:4x4. Raises UserError if it is unknown, Refused if the API lacks it."""
    hardware = find_hardware(name)
    if hardware.kind not in KINDS:
        raise Refused(f"--tpu {name}: the Cloud TPU API has {', '.join(KINDS)}")
    accelerator, units, runtime = KINDS[hardware.kind]
    return Slice(name, f"{accelerator}-{hardware.devices // hardware.chip.cores * units}", runtime)
