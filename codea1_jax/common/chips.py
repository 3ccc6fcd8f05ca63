"""Accelerators, by published figures: one line each in CHIPS."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from codea1_jax.common.errors import UserError

GIB = 2**30
GPUS_PER_HOST = 8
CPU = "cpu"
CHIPS_PER_HOST = 4  # of a TPU slice with several hosts
OLDEST_GPU = 8, 0  # compute capability from which on XLA compiles Triton's kernels, as those of attention are
_USED = 9 * 10**8  # bytes of a gigabyte of a GPU that JAX may use
WHOLE_HOST = 8  # chips of the largest two-dimensional slice on one host


@dataclass(frozen=True)
class Chip:
    """One device as JAX counts them; v4 and tpu7x chips are two devices each, with half of the chip's figures.

    flops: dense bfloat16 FLOP/s. memory: bytes that a program may use. bandwidth: bytes/s of that memory.
    interconnect: bytes/s that a device can receive from its neighbours over all links at once.
    dimensions: of the torus, 0 for GPUs. kinds: what JAX calls it (`jax.Device.device_kind`). cores: devices per chip.
    clock: Hz in which libtpu counts cycles; 0 for GPUs. host_cores: physical cores of its host, shared out evenly.
    capability: of a GPU, major and minor.
    """

    flops: float
    memory: int
    bandwidth: float
    interconnect: float
    dimensions: int
    kinds: tuple[str, ...]
    host_cores: int
    cores: int = 1
    clock: float = 0.0
    capability: tuple[int, int] | None = None


# TPUs: cloud.google.com/tpu/docs/v4, v5e, v5p, v6e and tpu7x ("system architecture"). The interconnect there is stated
# for both directions together; half of it can be received. Memory is what libtpu's compiler reports as available. The
# clock follows from the peak: 4 matrix units of 128 x 128 a core before v6e, 4 of 256 x 256 from then on, a
# multiplication and an addition in each element and cycle.
# GPUs: NVIDIA's data sheets of the A100, H100, H200 (SXM) and B200 (dense bfloat16, NVLink one way); memory is the nine
# tenths that JAX may use with XLA_PYTHON_CLIENT_MEM_FRACTION=0.9. Hosts: Google Cloud's machine types for each
# (ct5lp-hightpu-4t, a2-ultragpu-8g, a3-highgpu-8g, a3-ultragpu-8g and so on), with two virtual CPUs to a core.
# The last seven: NVIDIA's white papers on GA102, Ada and Blackwell for RTX, and data sheets of the others; dense
# bfloat16 summed in float32, which GeForce cards do at half the rate; they reach each other over PCI Express. Hosts of
# A10, L4 and L40S: Oracle's VM.GPU.A10, Google's g2-standard-96 and AWS's g6e.48xlarge; of the rest a workstation with
# eight cores to a card is assumed.
CHIPS = {
    "v4": Chip(137.5e12, int(15.25 * GIB), 614e9, 150e9, 3, ("TPU v4",), 15, cores=2, clock=1.05e9),
    "v5e": Chip(197e12, int(15.75 * GIB), 819e9, 200e9, 2, ("TPU v5 lite", "TPU v5e"), 14, clock=1.5e9),
    "v5p": Chip(459e12, int(95.74 * GIB), 2765e9, 600e9, 3, ("TPU v5", "TPU v5p"), 26, clock=1.75e9),
    "v6e": Chip(918e12, int(31.25 * GIB), 1638e9, 400e9, 2, ("TPU v6 lite", "TPU v6e"), 22, clock=1.75e9),
    "tpu7x": Chip(1153.5e12, int(94.75 * GIB), 3690e9, 300e9, 3, ("TPU7x",), 14, cores=2, clock=2.2e9),
    "a100-40": Chip(312e12, _USED * 40, 1555e9, 300e9, 0, ("NVIDIA A100-SXM4-40GB",), 6, capability=(8, 0)),
    "a100-80": Chip(312e12, _USED * 80, 2039e9, 300e9, 0, ("NVIDIA A100-SXM4-80GB",), 6, capability=(8, 0)),
    "h100": Chip(989e12, _USED * 80, 3350e9, 450e9, 0, ("NVIDIA H100 80GB HBM3",), 13, capability=(9, 0)),
    "h200": Chip(989e12, _USED * 141, 4800e9, 450e9, 0, ("NVIDIA H200",), 14, capability=(9, 0)),
    "b200": Chip(2250e12, _USED * 180, 8000e9, 900e9, 0, ("NVIDIA B200",), 14, capability=(10, 0)),
    "rtx-3090": Chip(71e12, _USED * 24, 936e9, 32e9, 0, ("NVIDIA GeForce RTX 3090",), 8, capability=(8, 6)),
    "rtx-4090": Chip(165.2e12, _USED * 24, 1008e9, 32e9, 0, ("NVIDIA GeForce RTX 4090",), 8, capability=(8, 9)),
    "rtx-5090": Chip(209.5e12, _USED * 32, 1792e9, 64e9, 0, ("NVIDIA GeForce RTX 5090",), 8, capability=(12, 0)),
    "a10": Chip(125e12, _USED * 24, 600e9, 32e9, 0, ("NVIDIA A10",), 15, capability=(8, 6)),
    "a6000": Chip(154.8e12, _USED * 48, 768e9, 32e9, 0, ("NVIDIA RTX A6000",), 8, capability=(8, 6)),
    "l4": Chip(121e12, _USED * 24, 300e9, 32e9, 0, ("NVIDIA L4",), 6, capability=(8, 9)),
    "l40s": Chip(362e12, _USED * 48, 864e9, 32e9, 0, ("NVIDIA L40S",), 12, capability=(8, 9)),
}


def compute_capability(device: Any) -> tuple[int, int] | None:
    version = re.fullmatch(r"(\d+)\.(\d+)", getattr(device, "compute_capability", ""))
    return None if version is None else (int(version[1]), int(version[2]))


@dataclass(frozen=True)
class Hardware:
    """A number of devices of one kind. `name` is libtpu's name of a TPU topology, or KIND:COUNT for GPUs."""

    name: str
    chip: Chip
    devices: int

    @property
    def kind(self) -> str:
        return self.name.partition(":")[0]

    @property
    def hosts(self) -> int:
        """Machines that hold the devices: eight GPUs each, four chips of a TPU; a small flat slice lies on one."""
        chips = self.devices // self.chip.cores
        if not self.is_tpu:
            return -(-chips // GPUS_PER_HOST)
        return 1 if self.chip.dimensions == 2 and chips <= WHOLE_HOST else -(-chips // CHIPS_PER_HOST)

    @property
    def is_tpu(self) -> bool:
        """Whether libtpu compiles for it; for GPUs XLA's CUDA compiler does. Neither needs the device."""
        return self.chip.dimensions > 0

    def is_like(self, other: "Hardware | None") -> bool:
        return other is not None and (self.kind, self.devices) == (other.kind, other.devices)

    @property
    def platform(self) -> str:
        return "tpu" if self.is_tpu else "cpu" if self.kind == CPU else "gpu"


def hardware_of(devices: Iterable[Any]) -> Hardware | None:
    """What these devices of JAX's are, if they are alike and their figures are published; None of a CPU."""
    kinds = [device.device_kind for device in devices]
    known = ((name, chip) for name, chip in CHIPS.items() if set(kinds) <= set(chip.kinds))
    return next((Hardware(f"{name}:{len(kinds)}", chip, len(kinds)) for name, chip in known), None)


def cpu_hardware(cores: int, memory: int) -> Hardware:
    """A CPU as one device, by SmolLM2's runs on two cores in float32 (docs/pretrained.md): about 40 GFLOP/s a
    core.
    """
    return Hardware(f"{CPU}:{cores}", Chip(40e9 * cores, memory, 20e9, 1.0, 0, (CPU,), cores), 1)


def peak_flops(devices: Iterable[Any]) -> float | None:
    """Dense bfloat16 FLOP/s of all devices together; None if their peak is not known, as of a CPU."""
    hardware = hardware_of(devices)
    return None if hardware is None else hardware.devices * hardware.chip.flops


def find_hardware(name: str) -> Hardware:
    """What `name`, such as v5e:4x4, v5p:2x2x4, h100:8 or h100 (one), stands for.

    libtpu decides whether such a shape of TPU exists. Raises UserError, naming what is known.
    """
    one = ":1" if name in CHIPS and not CHIPS[name].dimensions else ""
    match = re.fullmatch(r"([a-z0-9-]+):(\d+(?:x\d+)*)", name + one)
    chip = CHIPS.get(match[1]) if match else None
    if match is None or chip is None:
        raise unknown_hardware(name)
    sizes = [int(size) for size in match[2].split("x")]
    if len(sizes) != max(chip.dimensions, 1) or 0 in sizes:
        raise unknown_hardware(name)
    return Hardware(name + one, chip, math.prod(sizes) * chip.cores)


def unknown_hardware(name: str) -> UserError:
    flat, deep, gpus = (", ".join(k for k, chip in CHIPS.items() if chip.dimensions == n) for n in (2, 3, 0))
    near = get_close_matches(name.partition(":")[0], CHIPS, 1)
    return UserError(
        f"{name} is not known hardware; known are {flat} with :2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16; "
        f"{deep} with :2x2x1, 2x2x2, 2x2x4, 2x4x4, 4x4x4 and larger; {gpus} with a count, as in h100:8"
        + (f"; did you mean {near[0]}?" if near else "")
    )
