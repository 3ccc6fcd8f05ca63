"""Whether the files that hold a saved step's arrays are whole, without reading the arrays.

They are written in tensorstore's OCDBT format: a tree whose leaves record in which file, and where in it, a value lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tensorstore
from etils import epath

from codea1_jax.checkpoint.storage import REMOTE


def first_damaged_file(folder: Path | epath.Path) -> str | None:
    """The name of a file in `folder` that is missing or ends before a value that is recorded to lie in it, or None.

    Raises what tensorstore does if the tree cannot be read: OSError, ValueError, IndexError or NotImplementedError.
    """
    ends: dict[str, int] = {}
    for name, end in _values(folder):
        ends[name] = max(end, ends.get(name, 0))
    return next((name for name, end in ends.items() if _size(folder / name) < end), None)


def _values(folder: Path | epath.Path) -> Iterator[tuple[str, int]]:
    """The file of every value that is not in the tree itself, and where in that file it ends."""
    base = tensorstore.KvStore.open(_spec(str(folder))).result()
    root = tensorstore.ocdbt.dump(base).result()["versions"][-1]["root"]
    nodes = [root["location"]]
    while nodes:
        node = tensorstore.ocdbt.dump(base, nodes.pop()).result()
        for entry in node["entries"]:
            if "location" in entry:
                nodes.append(entry["location"])
            elif "indirect_value" in entry:  # value:FOLDER:FILE:OFFSET:LENGTH
                _, *name, offset, length = entry["indirect_value"].split(":")
                yield "".join(name), int(offset) + int(length)


def _spec(folder: str) -> dict[str, str]:
    if not folder.startswith(REMOTE):
        return {"driver": "file", "path": f"{folder}/"}
    bucket, _, path = folder.removeprefix(REMOTE).partition("/")
    return {"driver": "gcs", "bucket": bucket, "path": f"{path}/"}


def _size(path: Path | epath.Path) -> int:
    return epath.Path(path).stat().length if path.exists() else 0
