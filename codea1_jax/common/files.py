"""Files that are whole or not there: atomic writes, and JSON lines."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a whole file or none, text as UTF-8: a reader, or a crash, never sees half of it.

    Raises OSError (such as a full disk) and leaves the previous file as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    with naming(path):
        try:
            with temporary.open("wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Inside it, an OSError that names no file, as that of a failed write, or a temporary file names this one."""
    try:
        yield
    except OSError as error:
        known = error.filename is not None and not str(error.filename).endswith(".tmp")
        if known or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; an unfinished last line (a crash while writing) is left out.

    Raises FileNotFoundError, and ValueError naming the line if a finished line is not a JSON object.
    """
    lines = path.read_text(encoding="utf-8").split("\n")
    return [_parse_line(path, number, line) for number, line in enumerate(lines[:-1], start=1)]


def _parse_line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {number}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}, line {number}: not a JSON object")
    return value
