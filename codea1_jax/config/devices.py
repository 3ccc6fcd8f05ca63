"""The devices of a run: how its processes meet, how the devices are arranged, and what waits in host memory."""

import math

from pydantic import Field, model_validator

from codea1_jax.common.errors import UserError
from codea1_jax.config.section import Section


class HostsConfig(Section):
    """How the processes of a run find each other; unset: from SLURM or the TPU pod, else there is one process."""

    coordinator: str | None = Field(default=None, description="address of the first process, as host:port")
    count: int | None = Field(default=None, ge=1, description="number of processes")
    index: int | None = Field(default=None, ge=0, description="index of this process, from 0")

    @model_validator(mode="after")
    def _all_or_none(self) -> "HostsConfig":
        if len({value is None for value in (self.coordinator, self.count, self.index)}) > 1:
            raise ValueError("set all of hosts.coordinator, hosts.count and hosts.index, or none")
        return self


class MeshConfig(Section):
    """How the devices are arranged. One size may be -1: all remaining devices."""

    replica: int = Field(default=1, description="copies of the model, over which the batch is split; slices divide it")
    fsdp: int = Field(default=-1, description="devices that split parameters, optimizer state and batch")
    tensor: int = Field(default=1, description="devices that split heads, feed-forward and vocabulary")

    def shape(self, devices: int) -> tuple[int, int, int]:
        """The sizes of (replica, fsdp, tensor) over that many devices. Raises UserError if they do not fit."""
        sizes = [self.replica, self.fsdp, self.tensor]
        stated = {name: size for name, size in zip(MeshConfig.model_fields, sizes, strict=True) if size != -1}
        wrong = [f"mesh.{name}={size}" for name, size in stated.items() if size < 1]
        if wrong or len(stated) < 2:
            raise UserError(f"{', '.join(wrong) or 'mesh'}: sizes are positive, and one of them may be -1")
        product = math.prod(stated.values())
        if devices % product or (len(stated) == 3 and product != devices):
            settings = " x ".join(f"mesh.{name}={size}" for name, size in stated.items())
            raise UserError(f"{settings} does not fit {devices} devices: change one of them, or set one to -1")
        replica, fsdp, tensor = (devices // product if size == -1 else size for size in sizes)
        return replica, fsdp, tensor


class OffloadConfig(Section):
    """What is kept in host memory while unused; it moves there and back once or twice per step."""

    optimizer: bool = Field(default=False, description="the moments of a policy, except during its optimizer updates")
