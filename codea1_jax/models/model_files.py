"""The small files of a model directory, read or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codea1_jax.common.errors import UserError

_POINTER = b"version https://git-lfs.github.com/spec/"


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
    """The object in a JSON file. Raises UserError."""
    try:
        document = json.loads(checked(path).read_bytes())
    except (ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: not JSON ({error}); download it again") from error
    if not isinstance(document, dict):
        raise UserError(f"{path}: not a JSON object")
    return document
