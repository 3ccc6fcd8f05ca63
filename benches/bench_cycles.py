"""Cycles of the kernels for TPUs, by libtpu's own schedule: `make bench-cycles`, two minutes, no TPU.

Of caches in pages, for 1.5B (two key/value heads of 128, eight queries a head and row, eight rows to a prompt): what a
device takes for a full chunk, to compute it, and to read it as `codea1 plan` forecasts; the longer of the two counts.
Of flash attention, for heads of 128: what it takes for a tile, by its mask; the plan takes them all for the middle kind
(`TILE_CYCLES`). A bundle is taken as a cycle, and what a kernel does once, at its start, is left out. Ends with one
line of JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from itertools import groupby, pairwise
from pathlib import Path

from codea1_jax.devices.chips import Hardware, find_hardware
from codea1_jax.plan.compiled.duration import efficiency_of
from codea1_jax.rollout.paged_tpu import CHUNK

TESTS = Path(__file__).parents[1] / "tests"
PAGED, FLASH = TESTS / "support" / "paged_programs.py", TESTS / "models" / "compiled_flash.py"
CORES = {"v5e:2x2": 1, "v5p:2x2x1": 2, "v6e:2x2": 1}  # of a device, which share the work
TILES = {8: "row", 64: "prompt"}  # by queries of a head
BYTES = {"bf16": 2, "f8e4m3b11fnuz": 1}
PAGE = 32  # tokens of a page there
NUMBERS = 2 * 2 * 128  # keys and values, heads, dimensions of a head
KERNELS = {"flash_forward": "forward", "flash_backward_q": "queries", "flash_backward_kv": "keys, values"}
MASKS = ("whole", "masked", "diagonal")  # in the order in which the kernels test for them


def main() -> None:
    found = {topology: cycles_of(find_hardware(topology), cores) for topology, cores in CORES.items()}
    rows = list(next(iter(found.values())))
    print(f"{'cycles':32}" + "".join(f"{topology.partition(':')[0]:>8}" for topology in found))
    for row in rows:
        print(f"{row:32}" + "".join(f"{cycles[row]:8.0f}" for cycles in found.values()))
    print(json.dumps({"bench": "cycles", "chunk": CHUNK, "cycles": found}))


def cycles_of(hardware: Hardware, cores: int) -> dict[str, float]:
    """Of a chunk, by what is done and with what type; and of a tile, by kernel and mask."""
    bandwidth = hardware.chip.bandwidth * efficiency_of(hardware).cache
    schedules = schedules_of(PAGED, hardware, "paged_attention")
    computing = {key: count(text) / cores for _, text in schedules if (key := kind_of(text))}
    found: dict[str, float] = {}
    for dtype, size in BYTES.items():
        found[f"reading {dtype}"] = CHUNK * NUMBERS * size / bandwidth * hardware.chip.clock
        found |= {f"computing {dtype}, a {tile}": computing[dtype, queries] for queries, tile in TILES.items()}
    flash = schedules_of(FLASH, hardware, "flash_")
    for kernel, name in KERNELS.items():
        (schedule,) = {text for file, text in flash if re.search(rf"{kernel}(?![a-z]|_[a-z])", file)}
        found |= {f"{name}, {mask}": cycles / cores for mask, cycles in of_a_tile(schedule).items()}
    return found


def schedules_of(script: Path, hardware: Hardware, kernels: str) -> list[tuple[str, str]]:
    """The names and final schedules of kernels with this in their names, of what a script compiles."""
    with tempfile.TemporaryDirectory() as folder:
        flags = f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"
        subprocess.run(
            (sys.executable, script, hardware.name),
            env=os.environ | {"LIBTPU_INIT_ARGS": flags},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return [(path.name, path.read_text()) for path in Path(folder).glob(f"*{kernels}*[0-9]-final_bundles.txt")]


def kind_of(schedule: str) -> tuple[str, int] | None:
    """The type of the store and the queries of a head; None for other sizes of model."""
    queries = re.search(r"window shape is bf16\[1,2,(\d+),128\]", schedule)
    store = re.search(rf"shape: (\w+)\[\d+,2,{PAGE},128\]", schedule)
    return (store[1], int(queries[1])) if queries and store and int(queries[1]) in TILES else None


def count(schedule: str) -> int:
    """Bundles of a step of the kernel's grid, without those that fill the buffers with zeros in the first."""
    loop = loop_of(schedule)
    fills = [bool(re.search(r"vst \[vmem:\[#allocation\d+", x)) and not re.search(r"vld|mat", x) for x in loop]
    return len(loop) - max(len(list(run)) for filling, run in groupby(fills) if filling)


def of_a_tile(schedule: str) -> dict[str, int]:
    """Bundles of a step of a flash kernel's grid, by the tile's mask: one of three long branches is taken."""
    loop = loop_of(schedule)
    branches = [index for index, bundle in enumerate(loop) if "sbr" in bundle]
    lengths = {begin: end - begin for begin, end in pairwise([0, *branches, len(loop)])}
    ways = sorted(sorted(lengths, key=lengths.__getitem__)[-len(MASKS) :])
    others = len(loop) - sum(lengths[way] for way in ways)
    return {mask: others + lengths[way] for mask, way in zip(MASKS, ways, strict=True)}


def loop_of(schedule: str) -> list[str]:
    """The bundles of a kernel's innermost loop and of those around it."""
    bundles = [line for line in schedule.splitlines() if re.match(r"\s*(0x[0-9a-f]+|0)\s.*:", line)]
    return [line for line in bundles if ">" in line.split("{")[0]]


if __name__ == "__main__":
    main()
