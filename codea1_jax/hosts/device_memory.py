"""Memory of accelerators (or of a CPU) that is not enough for what a run computes, reported in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class DeviceMemoryError(OSError):
    """An array, or a program's temporaries, did not fit."""


@contextmanager
def shortage_named() -> Iterator[None]:
    """Turns XLA's error into DeviceMemoryError; all others pass as they are."""
    try:
        yield
    except RuntimeError as error:
        if not is_shortage(error):
            raise
        raise DeviceMemoryError(
            f"out of device memory ({str(error).splitlines()[0]}); make rollout.cache_tokens or "
            "packing.micro_batch_tokens smaller, or spread the models over more devices with mesh.fsdp; `codea1 plan` "
            "shows what a run needs"
        ) from error


def is_shortage(error: RuntimeError) -> bool:
    """Whether XLA could not allocate; only the text of a jax.errors.JaxRuntimeError shows it."""
    return type(error).__name__ == "JaxRuntimeError" and str(error).startswith("RESOURCE_EXHAUSTED")
