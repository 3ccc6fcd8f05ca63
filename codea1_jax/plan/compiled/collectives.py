"""What the devices send each other, read from a compiled program's text.

A collective inside a loop counts as often as the loop turns; one that XLA has spread over several fusions, to hide it
behind computation, counts once.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from codea1_jax.plan.compiled.hlo import Instruction, UnreadableProgram, array_bytes, arrays, executions, parse

KINDS = frozenset(("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute"))

COMPUTING = frozenset(("fusion", "custom-call", "dot", "convolution", "while", "call", "conditional"))

_CHANNEL = re.compile(r"channel_id=(\d+)")


@dataclass(frozen=True)
class Collective:
    """One collective instruction.

    size: bytes of the whole array on one device: what it ends with, or, of a reduction, what it starts with.
    group: devices that take part together. times: how often a call of the program runs it. hidden: whether the device
    computes meanwhile.
    """

    kind: str
    size: int
    group: int
    times: int
    hidden: bool

    @property
    def received(self) -> float:
        """Bytes that every device must receive, however clever the algorithm, in one call of the program."""
        share = (self.group - 1) / self.group
        factor = {"all-reduce": 2 * share, "collective-permute": 1.0}.get(self.kind, share)
        return self.times * self.size * factor


def received_bytes(program: str) -> dict[str, float]:
    """Bytes that each device receives in one call of a compiled program, by kind of collective."""
    total: defaultdict[str, float] = defaultdict(float)
    for collective in find_collectives(program):
        total[collective.kind] += collective.received
    return dict(total)


def find_collectives(program: str) -> list[Collective]:
    """Every collective of a compiled program (`Compiled.as_text()`). Raises UnreadableProgram."""
    parsed, collectives = parse(program), dict[tuple[str, str], Collective]()
    for execution in executions(parsed):
        instruction = execution.instruction
        kind = instruction.operation.removesuffix("-start")
        if kind not in KINDS:
            continue
        started = kind != instruction.operation
        group = _group_size(instruction.text)
        size = _size(instruction, paired=started and kind != "all-reduce")
        if kind == "all-reduce" and "all-reduce-scatter" in execution.computation:
            kind = "reduce-scatter"  # how XLA for TPU writes one: the reduction, and the cut, in one fusion
        elif kind == "reduce-scatter":
            size *= group
        if group > 1:
            channel = _CHANNEL.search(instruction.text)
            key = execution.loop, channel[1] if channel else instruction.name
            hidden = execution.computation != execution.loop  # inside a fusion, which computes something else too
            if started:
                hidden = _computes_before_done(parsed.computations[execution.computation], instruction)
            collectives.setdefault(key, Collective(kind, size, group, execution.times, hidden))
    return list(collectives.values())


def _computes_before_done(computation: Sequence[Instruction], start: Instruction) -> bool:
    """Whether anything runs between a collective's start and the instruction that waits for it."""
    after = computation[computation.index(start) + 1 :]
    meanwhile = itertools.takewhile(lambda instruction: start.name not in instruction.operands, after)
    return any(instruction.operation in COMPUTING for instruction in meanwhile)


def _size(instruction: Instruction, *, paired: bool) -> int:
    """Bytes of its result. What was started gives what it takes and then its result: arrays, and marks of no size."""
    shape = instruction.shape
    sizes = [size for size, (_, axes) in zip(array_bytes(shape), arrays(shape), strict=True) if axes]
    return sum(sizes[len(sizes) // 2 :] if paired and len(sizes) > 1 else sizes)


def _group_size(text: str) -> int:
    """Devices in each group, of the three ways in which XLA writes groups."""
    listed = re.search(r"replica_groups=\{\{([\d,]+)\}", text)
    if listed:
        return listed[1].count(",") + 1
    shaped = re.search(r"replica_groups=\[(\d+),(\d+)\]", text)
    if shaped:
        return int(shaped[2])
    meshed = re.search(r"replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}", text)
    if meshed:
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", meshed[1]))
        parts = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", meshed[2])
        return math.prod(int(part or sizes[axis]) for axis, part in parts)
    if "source_target_pairs" in text:
        return 2
    raise UnreadableProgram(f"no group of devices in: {text[:200]}")
