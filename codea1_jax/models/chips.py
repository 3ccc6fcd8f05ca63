"""Accelerators, by published figures: one line each in CHIPS."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from codea1_jax.errors import UserError

GIB = 2**30


@dataclass(frozen=True)
class Chip:
    """One device as JAX counts them; v4 and tpu7x chips are two devices each, with half of the chip's figures.

    flops: dense bfloat16 FLOP/s. memory: bytes that a program may use. bandwidth: bytes/s of that memory.
    interconnect: bytes/s that a device can receive from its neighbours over all links at once.
    dimensions: of the torus, 0 for GPUs. kinds: what JAX calls it (`jax.Device.device_kind`). cores: devices per chip.
    """

    flops: float
    memory: int
    bandwidth: float
    interconnect: float
    dimensions: int
    kinds: tuple[str, ...]
    cores: int = 1


# TPUs: cloud.google.com/tpu/docs/v4, v5e, v5p, v6e and tpu7x ("system architecture"). The interconnect there is stated
# for both directions together; half of it can be received. Memory is what libtpu's compiler reports as available.
# GPUs: NVIDIA's data sheets of the H100 SXM and H200 SXM (dense bfloat16, NVLink one way); memory is the nine tenths
# that JAX may use with XLA_PYTHON_CLIENT_MEM_FRACTION=0.9.
CHIPS = {
    "v4": Chip(137.5e12, int(15.25 * GIB), 614e9, 150e9, 3, ("TPU v4",), cores=2),
    "v5e": Chip(197e12, int(15.75 * GIB), 819e9, 200e9, 2, ("TPU v5 lite", "TPU v5e")),
    "v5p": Chip(459e12, int(95.74 * GIB), 2765e9, 600e9, 3, ("TPU v5", "TPU v5p")),
    "v6e": Chip(918e12, int(31.25 * GIB), 1638e9, 400e9, 2, ("TPU v6 lite", "TPU v6e")),
    "tpu7x": Chip(1153.5e12, int(94.75 * GIB), 3690e9, 300e9, 3, ("TPU7x",), cores=2),
    "h100": Chip(989e12, int(0.9 * 80e9), 3350e9, 450e9, 0, ("NVIDIA H100 80GB HBM3",)),
    "h200": Chip(989e12, int(0.9 * 141e9), 4800e9, 450e9, 0, ("NVIDIA H200",)),
}

_BY_KIND = {kind: chip for chip in CHIPS.values() for kind in chip.kinds}


def peak_flops(devices: Iterable[Any]) -> float | None:
    """Dense bfloat16 FLOP/s of all devices together; None if one is of a kind whose peak is not known (a CPU)."""
    chips = [_BY_KIND.get(device.device_kind) for device in devices]
    return None if None in chips else sum(chip.flops for chip in chips if chip is not None)


@dataclass(frozen=True)
class Hardware:
    """A number of devices of one kind. `name` is libtpu's name of a TPU topology, or KIND:COUNT for GPUs."""

    name: str
    chip: Chip
    devices: int

    @property
    def is_tpu(self) -> bool:
        """Whether there is a compiler for it that needs no device."""
        return self.chip.dimensions > 0


def find_hardware(name: str) -> Hardware:
    """What `name`, such as v5e:4x4, v5p:2x2x4 or h100:8, stands for. Raises UserError, naming what is known.

    libtpu decides whether such a shape of TPU exists.
    """
    match = re.fullmatch(r"([a-z0-9]+):(\d+(?:x\d+)*)", name)
    chip = CHIPS.get(match[1]) if match else None
    if match is None or chip is None:
        raise unknown_hardware(name)
    sizes = [int(size) for size in match[2].split("x")]
    if len(sizes) != max(chip.dimensions, 1) or 0 in sizes:
        raise unknown_hardware(name)
    return Hardware(name, chip, math.prod(sizes) * chip.cores)


def unknown_hardware(name: str) -> UserError:
    """The refusal of a name."""
    flat, deep, gpus = (", ".join(k for k, chip in CHIPS.items() if chip.dimensions == n) for n in (2, 3, 0))
    return UserError(
        f"--topology {name}: unknown; known are {flat} with :2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16; "
        f"{deep} with :2x2x1, 2x2x2, 2x2x4, 2x4x4, 4x4x4 and larger; {gpus} with a count, as in h100:8"
    )
