"""Files that are whole or not there: atomic writes, and JSON that is read or refused by name."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from yaml import YAMLError

from codea1_jax.common.errors import UserError

_POINTER = b"version https://git-lfs.github.com/spec/"


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

    Raises FileNotFoundError, and UserError naming the line if a finished line is not a JSON object.
    """
    lines = path.read_text(encoding="utf-8").split("\n")
    found = []
    for number, line in enumerate(lines[:-1], start=1):
        with blamed_on_file(f"{path}, line {number}"):
            found.append(_object(line))
    return found


def _object(text: str | bytes) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


@contextmanager
def blamed_on_file(name: Path | str) -> Iterator[None]:
    """Inside it, whatever the content of a file makes fail is a UserError that names the file: others write it."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, YAMLError) as error:
        if isinstance(error, UserError):
            raise
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise UserError(f"{name}: {kind}{' '.join(str(error).split())}") from error


def checked(path: Path) -> Path:
    """The path of a file that holds something. Raises UserError if it does not, or only stands for a file."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with path.open("rb") as file:
        start = file.read(len(_POINTER))
    if not start:
        raise UserError(f"{path}: the file is empty; download it again")
    if start == _POINTER:
        raise UserError(f"{path}: a pointer of Git LFS, not the file itself; run `git lfs pull` in {path.parent}")
    return path


def read_json(path: Path) -> dict[str, Any]:
    with blamed_on_file(path):
        return _object(checked(path).read_bytes())
