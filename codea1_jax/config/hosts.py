"""How the processes of a run find each other, and what one does when it stalls."""

from __future__ import annotations

from pydantic import Field, model_validator

from codea1_jax.config.section import Section


class HostsConfig(Section):
    """How the processes of a run find each other; unset: as in the SLURM step or TPU pod, else there is one."""

    coordinator: str | None = Field(default=None, description="address of the first process, as host:port")
    count: int | None = Field(default=None, ge=1, description="processes")
    index: int | None = Field(default=None, ge=0, description="this process, from 0")
    stall_seconds: float | None = Field(
        default=1800.0,
        gt=0,
        description="a host on which nothing was drawn, judged, learned or saved for this long reports it, with the "
        "stacks of its threads; none: never",
    )
    stop_on_stall: bool = Field(default=False, description="it then saves what it can and stops, to be resumed")

    @model_validator(mode="after")
    def _all_or_none(self) -> HostsConfig:
        if len({value is None for value in (self.coordinator, self.count, self.index)}) > 1:
            raise ValueError("set all of hosts.coordinator, hosts.count and hosts.index, or none")
        return self
