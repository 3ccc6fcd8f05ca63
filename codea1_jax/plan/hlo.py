"""The text of a compiled program (`Compiled.as_text()`): what runs how often, and what devices send each other.

A collective inside a loop counts as often as the loop turns; one that XLA has spread over several fusions, to hide it
behind computation, counts once.
"""

import functools
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

ELEMENT_BYTES = {
    **dict.fromkeys(("pred", "s8", "u8", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2"), 1),
    **dict.fromkeys(("s16", "u16", "bf16", "f16"), 2),
    **dict.fromkeys(("s32", "u32", "f32"), 4),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 8),
}

_INSTRUCTION = re.compile(r"^\s+(?P<root>ROOT )?(?P<name>%\S+) = (?P<text>.*)$")
_OPERATION = re.compile(r"(?P<shape>\(.*?\)|\S+) (?P<operation>[\w-]+)\((?P<operands>[^)]*)\)")
_LOOP = re.compile(r"condition=(%[^,\s]+), body=(%[^,\s]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_CALLED = re.compile(r"(?:calls|to_apply|true_computation|false_computation)=(%[^,\s)]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_CONSTANT = re.compile(r"[su]32\[\]\S* constant\((\d+)\)")
_COUNTER = re.compile(r"get-tuple-element\(\S+\), index=(\d+)")
_NAME = re.compile(r"%[^\s,()]+")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
_LAYOUT = re.compile(r"\{[^}]*\}")
_CHANNEL = re.compile(r"channel_id=(\d+)")

COLLECTIVES = frozenset(("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute"))
COMPUTING = frozenset(("fusion", "custom-call", "dot", "convolution", "while", "call", "conditional"))


class UnreadableProgram(ValueError):
    """The program's text is not as this module expects it."""


@dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    shape: of its result, as written: `f32[8,128]{1,0}`, or a tuple of such. operation: such as `fusion`.
    operands: names of instructions of the same computation. text: all that stands after its name.
    """

    name: str
    shape: str
    operation: str
    operands: tuple[str, ...]
    is_root: bool
    text: str

    @property
    def called(self) -> tuple[str, ...]:
        """Computations that it calls, a loop's left out."""
        branches = (name.strip() for group in _BRANCHES.findall(self.text) for name in group.split(","))
        return (*_CALLED.findall(self.text), *branches)

    @property
    def loop(self) -> tuple[str, str] | None:
        match = _LOOP.search(self.text) if self.operation == "while" else None
        return None if match is None else (match[1], match[2])


@dataclass(frozen=True)
class Program:
    """computations: their instructions by name, in order. entry: the first to run."""

    computations: Mapping[str, Sequence[Instruction]]
    entry: str


@dataclass(frozen=True)
class Execution:
    """An instruction that runs, `times` in one call of the program, and where.

    loop: the innermost loop's body. computation: the one that it stands in.
    """

    instruction: Instruction
    computation: str
    loop: str
    times: int


@functools.lru_cache(maxsize=1)  # collectives and kernels are read from the same text, megabytes of it
def parse(text: str) -> Program:
    """Raises UnreadableProgram if the text has no entry computation, or an instruction without an operation."""
    computations: dict[str, list[Instruction]] = {}
    entry, current = "", ""
    for line in text.splitlines():
        if line.startswith(("%", "ENTRY %")) and line.rstrip().endswith("{"):
            current = line.removeprefix("ENTRY ").split(" ", 1)[0]
            computations[current] = []
            entry = current if line.startswith("ENTRY") else entry
        elif current and (match := _INSTRUCTION.match(line)):
            computations[current].append(_instruction(match))
    if not entry:
        raise UnreadableProgram("the program has no entry computation")
    return Program(computations, entry)


def _instruction(line: re.Match[str]) -> Instruction:
    match = _OPERATION.match(line["text"])
    if match is None:
        raise UnreadableProgram(f"no operation in: {line['text'][:200]}")
    operands = tuple(_NAME.findall(match["operands"]))
    return Instruction(
        line["name"], match["shape"], match["operation"], operands, is_root=bool(line["root"]), text=line["text"]
    )


def executions(program: Program, *, into: frozenset[str] | None = None) -> Iterator[Execution]:
    """All that runs; every branch of a condition counts as taken.

    into: the operations, besides loops, whose called computations are entered; None: every one.
    """

    def walk(name: str, loop: str, times: int) -> Iterator[Execution]:
        for instruction in program.computations[name]:
            yield Execution(instruction, name, loop, times)
            if (turning := instruction.loop) is not None:
                yield from walk(turning[1], turning[1], times * _turns(program, *turning, instruction.text))
            elif into is None or instruction.operation in into:
                for callee in instruction.called:
                    yield from walk(callee, loop, times)

    yield from walk(program.entry, program.entry, 1)


def _turns(program: Program, condition: str, body: str, text: str) -> int:
    """How often a loop turns at most: as XLA knows, or until its counter, from 0, reaches its condition's constant."""
    if known := _TRIPS.search(text):
        return int(known[1])
    lines = [*program.computations[condition]]
    fused = [callee for line in lines if line.operation == "fusion" for callee in line.called]
    lines += [line for callee in fused for line in program.computations[callee]]
    compared = "\n".join(line.text for line in lines)
    limits = [int(limit) for limit in _CONSTANT.findall(compared)]
    if not limits:
        raise UnreadableProgram(f"the loop condition {condition} compares with no constant")
    counter = _COUNTER.search(compared)
    return -(-max(limits) // (_stride(program.computations[body], int(counter[1])) if counter else 1))


def _stride(body: Sequence[Instruction], counter: int) -> int:
    """What a loop's body adds to its counter: more than 1 where XLA has unrolled the loop."""
    by_name = {instruction.name: instruction for instruction in body}
    carried = next((line.operands for line in body if line.is_root and line.operation == "tuple"), ())
    step = by_name.get(carried[counter]) if counter < len(carried) else None
    summands = step.operands if step is not None and step.operation == "add" else ()
    constants = [_CONSTANT.search(by_name[name].text) for name in summands if name in by_name]
    return max([int(constant[1]) for constant in constants if constant], default=1)


def arrays(shape: str) -> list[tuple[str, tuple[int, ...]]]:
    written = _ARRAY.findall(_LAYOUT.sub("", shape))
    return [(dtype, tuple(int(size) for size in sizes.split(",") if size)) for dtype, sizes in written]


def array_bytes(shape: str) -> list[int]:
    """Bytes of each array of a written shape; of what is not stored, such as a token, none."""
    return [ELEMENT_BYTES.get(dtype, 0) * math.prod(sizes) for dtype, sizes in arrays(shape)]


# --- collectives ------------------------------------------------------------------------------------------


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


def received_bytes(program: str) -> float:
    """Bytes that each device receives in one call of a compiled program (`Compiled.as_text()`)."""
    return sum((collective.received for collective in find_collectives(program)), start=0.0)


def find_collectives(program: str) -> list[Collective]:
    """Raises UnreadableProgram."""
    parsed, collectives = parse(program), dict[tuple[str, str], Collective]()
    for execution in executions(parsed):
        instruction = execution.instruction
        kind = instruction.operation.removesuffix("-start")
        if kind not in COLLECTIVES:
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
