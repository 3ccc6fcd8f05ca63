from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from codea1_jax.config.section import Section


class SandboxConfig(Section):
    """The judge."""

    backend: Literal["auto", "nsjail", "process", "http"] = Field(
        default="auto",
        description="auto: nsjail, or stop and report what is missing; process: no jail, by name only; http: a "
        "service, `codea1 sandbox serve`",
    )
    address: Annotated[str, StringConstraints(pattern="^(https?://[^/].*)?$")] = Field(
        default="", description="http: where the service is, as http://host:port"
    )
    fallback: Literal["none", "process"] = Field(
        default="none", description="process: where backend=auto finds no jail, continue without one, with a warning"
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        description="number of jails; default: seven for every eight cores, the rest for JAX. With a service: "
        "jobs at once, default 16",
    )
    call_seconds: float = Field(default=1.0, gt=0, description="CPU time of one call")
    script_seconds: float | None = Field(
        default=None,
        gt=0,
        le=600,
        description="CPU time of one program on all its suites and the mistake book, and of the reference on these "
        "suites, as in the original's scripts: a hang fails all that follows, and a hanging reference the whole "
        "program; default: each call has its own time",
    )
    reference_names: bool = Field(
        default=False,
        description="programs may use the constants, functions and classes that stand next to the reference's own "
        "function, and tests its constants, as in the original",
    )
    memory_mb: int = Field(default=1024, ge=64, description="address space of one program")
    preload: tuple[str, ...] = Field(
        default=(),
        description="packages of this environment that programs may import, loaded once per jail (numpy, ...); a "
        "service preloads its own (`codea1 sandbox serve --preload`)",
    )

    @model_validator(mode="after")
    def _address_where_a_service_judges(self) -> "SandboxConfig":
        remote = self.backend == "http"
        if remote and not self.address:
            raise ValueError(f"backend={self.backend} needs sandbox.address=http://host:port")
        if self.address and not remote:
            raise ValueError(f"an address is for backend=http; backend={self.backend} judges here")
        if self.preload and remote:
            raise ValueError(f"backend={self.backend} judges elsewhere: preload there")
        return self
