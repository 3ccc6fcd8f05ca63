"""How long one call of a compiled program is expected to take on a device, by what the compiler emitted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from codea1_jax.devices.chips import Chip, Hardware
from codea1_jax.plan.compiled.collectives import find_collectives
from codea1_jax.plan.compiled.kernels import Kernel, find_kernels


@dataclass(frozen=True)
class Efficiency:
    """The shares of a device's published figures that kernels reach, by what bounds them, and what starting one costs.

    cache: of the bandwidth, where attention reads pages. launch: seconds from the end of one kernel to the start of the
    next.
    """

    matrix: float
    attention: float
    memory: float
    cache: float
    interconnect: float
    launch: float


# Assumptions until they are measured on a device; none of them has been. GPUs: XLA's own matrix kernels without
# autotuning, attention written in Triton, memory-bound fusions, NCCL over NVLink, the kernels of one CUDA graph. TPUs:
# libtpu states the cycles of all but Pallas's kernels, and those need no launch.
EFFICIENCY = {
    "gpu": Efficiency(matrix=0.6, attention=0.4, memory=0.8, cache=0.6, interconnect=0.75, launch=2e-6),
    "tpu": Efficiency(matrix=0.7, attention=0.5, memory=0.8, cache=0.7, interconnect=0.75, launch=0.0),
}

# Cycles in which a TPU's flash kernels compute a tile of 512 x 512 places for a head of 128 numbers, by libtpu's final
# schedule, a bundle taken as a cycle (docs/planning.md): forward, the gradient of the queries, that of the keys and
# values. Of a tile that is masked and not on the diagonal; without a mask it takes up to 15% less, on the diagonal up
# to 22% more.
TILE_HEAD_DIM = 128
TILE_CYCLES = {"v5e": (1848, 1827, 2203), "v5p": (959, 937, 1179), "v6e": (1538, 1305, 1527)}


def efficiency_of(hardware: Hardware) -> Efficiency:
    """What is assumed of this kind of device."""
    return EFFICIENCY["tpu" if hardware.is_tpu else "gpu"]


def expected_seconds(program: str, hardware: Hardware) -> dict[str, float]:
    """Seconds of one call of a compiled program (`Compiled.as_text()`), by what they are spent on.

    exchange: what devices wait for each other beyond what they compute meanwhile. Raises UnreadableProgram.
    """
    chip, efficiency = hardware.chip, efficiency_of(hardware)
    spent: defaultdict[str, float] = defaultdict(float)
    for kernel in find_kernels(program):
        spent[kernel.kind] += kernel.times * _kernel_seconds(kernel, chip, efficiency)
        spent["launch"] += kernel.times * efficiency.launch
    computing = sum(spent.values())
    waiting = {True: 0.0, False: 0.0}  # by whether something is computed meanwhile
    for collective in find_collectives(program):
        waiting[collective.hidden] += collective.received / (chip.interconnect * efficiency.interconnect)
    spent["exchange"] = waiting[False] + max(0.0, waiting[True] - computing)
    return dict(spent)


def _kernel_seconds(kernel: Kernel, chip: Chip, efficiency: Efficiency) -> float:
    """One run: as many cycles as the compiler estimates, or what its FLOPs or its bytes take, whichever is longer."""
    if kernel.cycles is not None:
        return kernel.cycles / chip.clock
    return max(kernel.flops / (chip.flops * efficiency.matrix), kernel.bytes / (chip.bandwidth * efficiency.memory))
