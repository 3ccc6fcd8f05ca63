"""How long one call of a compiled program is expected to take on a device, by what the compiler emitted."""

from __future__ import annotations

from collections import defaultdict

from codea1_jax.devices.chips import Chip, Hardware
from codea1_jax.plan.assumptions import Efficiency, efficiency_of
from codea1_jax.plan.compiled.collectives import find_collectives
from codea1_jax.plan.compiled.kernels import Kernel, find_kernels


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
