"""How the devices are arranged."""

from __future__ import annotations

import math

from pydantic import Field

from codea1_jax.common.errors import UserError
from codea1_jax.config.section import Section


class MeshConfig(Section):
    """How the devices are arranged. One size may be -1: as many as there are left."""

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
