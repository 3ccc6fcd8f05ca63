"""What the devices send each other, read from a compiled program's text.

A collective inside a loop counts as often as the loop turns; one that XLA has spread over several fusions, to hide it
behind computation, counts once.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

ELEMENT_BYTES = {
    **dict.fromkeys(("pred", "s8", "u8", "f8e4m3fn", "f8e5m2"), 1),
    **dict.fromkeys(("s16", "u16", "bf16", "f16"), 2),
    **dict.fromkeys(("s32", "u32", "f32"), 4),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 8),
}

_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?(%\S+) = (.*)$")
_KINDS = r"all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute"
_COLLECTIVE = re.compile(rf"^(?P<shape>\(.*?\)|\S+) (?P<kind>{_KINDS})(?P<start>-start)?\(")
_CALLED = re.compile(r"(?:calls|to_apply|true_computation|false_computation)=(%[^,\s)]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_LOOP = re.compile(r" while\(.*condition=(%[^,\s]+), body=(%[^,\s]+)")
_CONSTANT = re.compile(r"[su]32\[\]\S* constant\((\d+)\)")
_COUNTER = re.compile(r"get-tuple-element\(\S+\), index=(\d+)")
_NAME = re.compile(r"%[^\s,()]+")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
_CHANNEL = re.compile(r"channel_id=(\d+)")

Computations = Mapping[str, list[str]]


class UnreadableProgram(ValueError):
    """The program's text is not as this module expects it."""


@dataclass(frozen=True)
class Collective:
    """One collective instruction.

    size: bytes of the whole array on one device: what it ends with, or, of a reduction, what it starts with.
    group: devices that take part together. times: how often a call of the program runs it.
    """

    kind: str
    size: int
    group: int
    times: int

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
    computations, entry = _parse(program)
    found: dict[tuple[str, str], Collective] = {}
    for loop, times, computation, instruction, text in _walk(computations, entry, entry, 1):
        match = _COLLECTIVE.match(text)
        if match is None:
            continue
        channel = _CHANNEL.search(text)
        kind = match["kind"]
        group = _group_size(text)
        size = _size(match["shape"], started=bool(match["start"]) and kind != "all-reduce")
        if kind == "all-reduce" and "all-reduce-scatter" in computation:
            kind = "reduce-scatter"  # how XLA for TPU writes one: the reduction, and the cut, in one fusion
        elif kind == "reduce-scatter":
            size *= group
        if group > 1:
            found.setdefault((loop, channel[1] if channel else instruction), Collective(kind, size, group, times))
    return list(found.values())


def _parse(program: str) -> tuple[Computations, str]:
    """Every computation's instructions by its name, and the name of the first to run."""
    computations: dict[str, list[str]] = {}
    entry, current = "", ""
    for line in program.splitlines():
        if line.startswith(("%", "ENTRY %")) and line.rstrip().endswith("{"):
            current = line.removeprefix("ENTRY ").split(" ", 1)[0]
            computations[current] = []
            entry = current if line.startswith("ENTRY") else entry
        elif current and line.startswith(" "):
            computations[current].append(line)
    if not entry:
        raise UnreadableProgram("the program has no entry computation")
    return computations, entry


def _walk(computations: Computations, name: str, loop: str, times: int) -> Iterator[tuple[str, int, str, str, str]]:
    """(innermost loop, how often it turns, computation, instruction, its text) of all that runs."""
    for line in computations[name]:
        match = _INSTRUCTION.match(line)
        if match is None:
            continue
        instruction, text = match.groups()
        yield loop, times, name, instruction, text
        turning = _LOOP.search(text)
        if turning:
            condition, body = turning.groups()
            yield from _walk(computations, body, body, times * _turns(computations, condition, body))
            continue
        called = _CALLED.findall(text)
        for branches in _BRANCHES.findall(text):
            called += [branch.strip() for branch in branches.split(",")]
        for callee in called:
            yield from _walk(computations, callee, loop, times)


def _turns(computations: Computations, condition: str, body: str) -> int:
    """How often a loop turns at most: until its counter, from 0, reaches the number that the condition has."""
    text = "\n".join(computations[condition])
    limits = [int(limit) for limit in _CONSTANT.findall(text)]
    if not limits:
        raise UnreadableProgram(f"the loop condition {condition} compares with no constant")
    counter = _COUNTER.search(text)
    return -(-max(limits) // (_stride(computations[body], int(counter[1])) if counter else 1))


def _stride(body: list[str], counter: int) -> int:
    """What a loop's body adds to its counter: more than 1 where XLA has unrolled the loop."""
    texts: dict[str, str] = {match[1]: match[2] for match in map(_INSTRUCTION.match, body) if match}
    root = next((line for line in body if line.lstrip().startswith("ROOT ")), "")
    carried = _operands(root, "tuple")
    summands = _operands(texts.get(carried[counter], ""), "add") if counter < len(carried) else []
    constants = [_CONSTANT.search(texts.get(name, "")) for name in summands]
    return max([int(constant[1]) for constant in constants if constant], default=1)


def _operands(text: str, operation: str) -> list[str]:
    """What an instruction hands to an operation; nothing if it is another operation's."""
    return _NAME.findall(text.partition(f" {operation}(")[2].partition(")")[0])


def _size(shape: str, *, started: bool) -> int:
    """Bytes of an array or tuple. The result of a collective that was started is the second of a pair."""
    sizes = [
        ELEMENT_BYTES[dtype] * math.prod(int(n) for n in dims.split(",") if n)
        for dtype, dims in _ARRAY.findall(re.sub(r"\{[^}]*\}", "", shape))
    ]
    if started and len(sizes) > 1:
        return sizes[1]
    return sum(sizes)


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
