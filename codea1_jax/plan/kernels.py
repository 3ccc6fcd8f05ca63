"""What a compiled program runs on a device, kernel by kernel, and the seconds that each takes by what was emitted.

Bytes are those that a kernel reads and writes: of an array that it only slices or updates in place, the slice. FLOPs
are those of its matrix products, and of attention those under a causal mask. On TPUs libtpu states its estimate of a
kernel's cycles, except for kernels written in Pallas. What attention over the cache reads depends on how full its pages
are, which no program says: `forecast` adds it.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codea1_jax.common.chips import Chip, Hardware
from codea1_jax.plan.assumptions import EFFICIENCY, Efficiency
from codea1_jax.plan.hlo import Instruction, Program, array_bytes, arrays, executions, find_collectives, parse

ENTERED = frozenset(("conditional", "call", "async-start"))
KERNELS = frozenset(("fusion", "custom-call", "copy", "transpose", "convert", "dot", "convolution", "reduce", "sort"))
KERNELS |= {"gather", "scatter", "dynamic-slice", "dynamic-update-slice", "concatenate", "broadcast", "select", "rng"}
# Custom calls that compute nothing: they reserve memory, give it another name, or stand for a collective.
MARKS = re.compile(r'custom_call_target="(?!__cudnn|__cublas|__gpu|__onednn|tpu_custom_call|Sharding|TopK)')
# Kernels written in Pallas, by what their names or targets contain. What they compute depends on numbers: `forecast`
# counts it.
PALLAS = re.compile(r"paged_attention|flash_forward|flash_backward")

_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
_SLICING = ("dynamic-slice", "slice", "gather")
# What changes a part of its first operand in place, and which operand is the part.
_UPDATING = {"dynamic-update-slice": 1, "scatter": 2}
_RENAMING = ("bitcast", "reshape", "get-tuple-element", "copy", "convert")


@dataclass(frozen=True)
class Kernel:
    """One instruction that runs on a device by itself. bytes, flops and cycles: of one run.

    cycles: as the compiler estimates them; None where it does not. times: in one call of the program.
    """

    name: str
    bytes: int
    flops: int
    cycles: int | None
    times: int


def expected_seconds(program: str, hardware: Hardware) -> float:
    """Seconds of one call of a compiled program (`Compiled.as_text()`). Raises UnreadableProgram.

    Devices wait for each other beyond what they compute meanwhile.
    """
    chip, efficiency = hardware.chip, EFFICIENCY[hardware.platform]
    computing = sum(
        kernel.times * (_kernel_seconds(kernel, chip, efficiency) + efficiency.launch)
        for kernel in find_kernels(program)
    )
    waiting = {True: 0.0, False: 0.0}  # by whether something is computed meanwhile
    for collective in find_collectives(program):
        waiting[collective.hidden] += collective.received / (chip.interconnect * efficiency.interconnect)
    return max(computing, waiting[True]) + waiting[False]


def _kernel_seconds(kernel: Kernel, chip: Chip, efficiency: Efficiency) -> float:
    if kernel.cycles is not None:
        return kernel.cycles / chip.clock
    return max(kernel.flops / (chip.flops * efficiency.matrix), kernel.bytes / (chip.bandwidth * efficiency.memory))


def find_kernels(text: str) -> Iterator[Kernel]:
    """Every kernel of a compiled program. Raises UnreadableProgram."""
    program = parse(text)
    by_name = {name: {line.name: line for line in lines} for name, lines in program.computations.items()}
    for execution in executions(program, into=ENTERED):
        instruction, here = execution.instruction, by_name[execution.computation]
        cycles = _CYCLES.search(instruction.text)
        if instruction.operation not in KERNELS and cycles is None:
            continue
        if "async-collective" in instruction.name:
            continue  # `collectives` counts it
        if instruction.operation == "custom-call" and MARKS.search(instruction.text):
            continue
        if instruction.operation == "custom-call" and PALLAS.search(f"{instruction.name} {instruction.text}"):
            yield Kernel(instruction.name, 0, 0, None, execution.times)
            continue
        operands = [here[name].shape for name in instruction.operands if name in here]
        flops = _matrix_flops(program, instruction, operands)
        moved = _moved(program, instruction, operands)
        yield Kernel(instruction.name, moved, flops, int(cycles[1]) if cycles else None, execution.times)


def _matrix_flops(program: Program, instruction: Instruction, operands: Sequence[str]) -> int:
    if instruction.operation == "dot":
        contracted = _CONTRACTED.search(instruction.text)
        ((_, left),), ((_, result),) = arrays(operands[0]), arrays(instruction.shape)
        inner = math.prod(left[int(axis)] for axis in contracted[1].split(",") if axis) if contracted else 1
        return 2 * math.prod(result) * inner
    flops = 0
    for callee in instruction.called:
        lines = program.computations[callee]
        shapes = {line.name: line.shape for line in lines}
        for line in lines:
            flops += _matrix_flops(program, line, [shapes[name] for name in line.operands if name in shapes])
    return flops


def _moved(program: Program, instruction: Instruction, operands: Sequence[str]) -> int:
    lines = [line for callee in instruction.called[:1] for line in program.computations[callee]]
    if instruction.operation == "fusion" and lines:
        uses: dict[str, list[Instruction]] = {}
        for line in lines:
            for name in line.operands:
                uses.setdefault(name, []).append(line)
        return sum(_read(line, uses) for line in lines if line.operation == "parameter") + _written(lines)
    result = sum(array_bytes(instruction.shape))
    if instruction.operation in _SLICING:
        return 2 * result
    if instruction.operation in _UPDATING:
        return 2 * sum(array_bytes(operands[_UPDATING[instruction.operation]]))
    return result + sum(sum(array_bytes(shape)) for shape in operands)


def _read(value: Instruction, uses: dict[str, list[Instruction]]) -> int:
    whole, read = sum(array_bytes(value.shape)), 0
    for use in uses.get(value.name, ()):
        if use.operation in _SLICING and use.operands[0] == value.name:
            read += sum(array_bytes(use.shape))
        elif use.operation in _UPDATING and use.operands[0] == value.name:
            continue  # it is updated in place
        elif use.operation in _RENAMING:
            read += _read(use, uses)
        else:
            return whole
    return min(read, whole)


def _written(lines: Sequence[Instruction]) -> int:
    by_name = {line.name: line for line in lines}
    root = next(line for line in lines if line.is_root)
    written = 0
    for name in root.operands if root.operation == "tuple" else [root.name]:
        while by_name[name].operation in _RENAMING and by_name[name].operands[0] in by_name:
            name = by_name[name].operands[0]  # noqa: PLW2901  what made it, under its own name
        part = _UPDATING.get(by_name[name].operation)
        changed = name if part is None else by_name[name].operands[part]
        written += sum(array_bytes(by_name[changed].shape))
    return written
