"""What pydantic refuses, as the end of a line that names the key."""

import reprlib
from collections.abc import Mapping
from typing import Any


def describe(error: Mapping[str, Any]) -> str:
    """One of `ValidationError.errors()` without its place: a validator's own message, or what was wanted and found."""
    if error["type"] == "missing":
        return "is missing"
    message = " ".join(error["msg"].removeprefix("Value error, ").split()).replace("Input should be", "must be")
    # Validators' own messages show what they refuse.
    return message if error["type"] == "value_error" else f"{message}, not {reprlib.repr(error['input'])}"
