"""One row of a file, and what stands in place of one that cannot be read."""

from typing import Any

Row = dict[str, Any]
_LONGEST_REASON = 300  # characters


class BadRow(ValueError):
    """A row that cannot be read as a problem; the message is the reason."""


def one_line(error: Exception | str) -> str:
    """The message of an error, cut where it is very long."""
    return " ".join(str(error).split())[:_LONGEST_REASON]
