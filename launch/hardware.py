"""TPU slices as Google Cloud names them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from launch.shell import Refused

_FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_DEEP = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16")


@dataclass(frozen=True)
class Generation:
    """A TPU generation's names: of its accelerator types, in which a chip counts for `units`, and of its runtime."""

    accelerator: str
    runtime: str
    units: int
    shapes: tuple[str, ...]  # one for every size


# cloud.google.com/tpu/docs/runtimes
GENERATIONS = {
    "v4": Generation("v4", "tpu-ubuntu2204-base", 2, _DEEP),
    "v5e": Generation("v5litepod", "v2-alpha-tpuv5-lite", 1, _FLAT),
    "v5p": Generation("v5p", "v2-alpha-tpuv5", 2, _DEEP),
    "v6e": Generation("v6e", "v2-alpha-tpuv6e", 1, _FLAT),
}


@dataclass(frozen=True)
class Slice:
    """A slice of TPUs; `name` is its name in `codea1 plan --topology`."""

    name: str
    generation: Generation
    shape: str

    @property
    def chips(self) -> int:
        return math.prod(map(int, self.shape.split("x")))

    @property
    def accelerator_type(self) -> str:
        """Its name in the Cloud TPU API."""
        return f"{self.generation.accelerator}-{self.chips * self.generation.units}"


def find_slice(name: str) -> Slice:
    """The slice called `name`, as in v5e:4x4. Raises Refused, with the known names, if there is none."""
    kind, _, shape = name.partition(":")
    generation = GENERATIONS.get(kind)
    if generation is None:
        raise Refused(f"--tpu {name}: unknown; known kinds, with a shape as in v5e:4x4: {', '.join(GENERATIONS)}")
    if shape not in generation.shapes:
        raise Refused(f"--tpu {name}: the shapes of {kind} are {', '.join(generation.shapes)}")
    return Slice(name, generation, shape)
