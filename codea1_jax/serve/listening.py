"""An address that cannot be listened at, reported in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def named(service: str, address: str, option: str) -> Iterator[None]:
    """Turns the OSError of a port in use, or of a host that is not this one, into one that names service and option."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror  # negative for a host without an address
        raise OSError(
            f"cannot listen for {service} at {address}: {reason}; choose another {option} or --host"
        ) from error
