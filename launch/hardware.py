"""TPU slices as Google Cloud names them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from codea1_jax.devices.chips import find_hardware
from launch.shell import Refused

_FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_DEEP = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16")


@dataclass(frozen=True)
class Generation:
    """A TPU generation's names. `shapes` are those of its accelerator types, one for every size.

    `units` is what a chip counts for in the name of an accelerator type and in quotas; `quota` and `spot_quota` are ids
    in Cloud Quotas. If `accelerator` is None, the Cloud TPU API does not support the generation.
    """

    accelerator: str | None
    runtime: str
    units: int
    quota: str
    spot_quota: str
    gke: str
    shapes: tuple[str, ...]


# Runtime versions: cloud.google.com/tpu/docs/runtimes. Node labels: cloud.google.com/kubernetes-engine/docs/concepts/
# plan-tpus. Quota ids: `gcloud beta quotas info list --service=tpu.googleapis.com`.
GENERATIONS = {
    "v4": Generation(
        accelerator="v4",
        runtime="tpu-ubuntu2204-base",
        units=2,
        quota="TPUV4sPodPerProjectPerZoneForTPUAPI",
        spot_quota="TPUV4sPreemptiblePodPerProjectPerZoneForTPUAPI",
        gke="tpu-v4-podslice",
        shapes=_DEEP,
    ),
    "v5e": Generation(
        accelerator="v5litepod",
        runtime="v2-alpha-tpuv5-lite",
        units=1,
        quota="TPUV5sLitepodPerProjectPerZoneForTPUAPI",
        spot_quota="TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI",
        gke="tpu-v5-lite-podslice",
        shapes=_FLAT,
    ),
    "v5p": Generation(
        accelerator="v5p",
        runtime="v2-alpha-tpuv5",
        units=2,
        quota="TPUV5PPerProjectPerZoneForTPUAPI",
        spot_quota="TPUV5PPreemptiblePerProjectPerZoneForTPUAPI",
        gke="tpu-v5p-slice",
        shapes=_DEEP,
    ),
    "v6e": Generation(
        accelerator="v6e",
        runtime="v2-alpha-tpuv6e",
        units=1,
        quota="TPUV6EPerProjectPerZoneForTPUAPI",
        spot_quota="TPUV6EPreemptiblePerProjectPerZoneForTPUAPI",
        gke="tpu-v6e-slice",
        shapes=_FLAT,
    ),
    "tpu7x": Generation(accelerator=None, runtime="", units=1, quota="", spot_quota="", gke="tpu7x", shapes=_DEEP),
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
    def units(self) -> int:
        """What it uses of a quota."""
        return self.chips * self.generation.units

    @property
    def accelerator_type(self) -> str:
        """Its name in the Cloud TPU API. Raises Refused if the API does not support it."""
        if self.generation.accelerator is None:
            raise Refused(f"--tpu {self.name}: the Cloud TPU API does not support it; use `python -m launch gke`")
        return f"{self.generation.accelerator}-{self.units}"

    @property
    def hosts(self) -> int:
        return find_hardware(self.name).hosts

    @property
    def chips_per_host(self) -> int:
        return self.chips // self.hosts


def find_slice(name: str) -> Slice:
    """The slice called `name`, as in v5e:4x4. Raises Refused, with the known names, if there is none."""
    kind, _, shape = name.partition(":")
    generation = GENERATIONS.get(kind)
    if generation is None:
        raise Refused(f"--tpu {name}: unknown; known kinds, with a shape as in v5e:4x4: {', '.join(GENERATIONS)}")
    if shape not in generation.shapes:
        raise Refused(f"--tpu {name}: the shapes of {kind} are {', '.join(generation.shapes)}")
    return Slice(name, generation, shape)


def required(slice: Slice | None) -> Slice:
    """The slice. Raises Refused if none was given."""
    if slice is None:
        raise Refused("--tpu: give a slice, as in v5e:4x4, or a preset that is made for one")
    return slice
