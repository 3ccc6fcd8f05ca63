"""The bearer token that a service and its clients share; by default a judge's."""

import base64
import contextlib
import hmac
import os
from pathlib import Path

from sandbox.jobs import SandboxUnavailable

VARIABLE = "CODEA1_SANDBOX_TOKEN"


def read_token(file: Path | None = None, variable: str = VARIABLE) -> str:
    """The token in `file`, or else in an environment variable; "" where there is none.

    Raises SandboxUnavailable for a file without a token, and for a token that no HTTP header can hold.
    """
    try:
        token = (file.read_text() if file else os.environ.get(variable, "")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxUnavailable(f"the token cannot be read: {error}") from error
    source = file or variable
    if file and not token:  # or the service would run without one
        raise SandboxUnavailable(f"{source} holds no token: write one into it")
    if not (token.isascii() and token.isprintable()):
        raise SandboxUnavailable(f"the token in {source} must be one line of printable ASCII")
    return token


def authorizes(sent: str, token: str) -> bool:
    """Whether an Authorization header, of whatever bytes, bears the token; without a token any does.

    The password of basic authentication counts as well: clients that take nothing but a URL send that of
    ``http://user:TOKEN@host``.
    """
    if sent.startswith("Basic "):
        with contextlib.suppress(ValueError):
            user_and_password = base64.b64decode(sent.removeprefix("Basic ")).decode("utf-8", "surrogateescape")
            sent = f"Bearer {user_and_password.partition(':')[2]}"
    return not token or hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), f"Bearer {token}".encode())
