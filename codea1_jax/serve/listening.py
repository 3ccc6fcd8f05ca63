"""Whether an address can be listened at, before anything that takes time."""

from __future__ import annotations

import os
import socket


def check_free(service: str, host: str, port: int, option: str) -> None:
    """Raises OSError, which names the service, the reason and the option, if a port is in use or a host is not here."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror  # negative for a host without an address
        raise OSError(
            f"cannot listen for {service} at {host} port {port}: {reason}; choose another {option} or --host"
        ) from error
