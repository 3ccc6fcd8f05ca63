"""Data on this machine or in a bucket, and the command that creates missing data."""

import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from data_pipeline.rows import files
from data_pipeline.sources import RECIPES

PREPARED = Path("data")  # where `codea1 data prepare` writes by default
BUCKET = "gs://"


def check(source: str, command: str | None) -> None:
    """Raises ValueError, naming the `command` that creates it, if nothing is at `source`, or if it cannot be read."""
    if not _exists(source):
        raise ValueError(f"{source} does not exist; create it: {command}" if command else f"{source}: no such file")


def preparation(source: str) -> str | None:
    """The command that creates the dataset at `source`; None if no command does, as for your own files."""
    folder, _, name = source.rstrip("/").rpartition("/")
    if name not in RECIPES or not RECIPES[name].source:
        return None
    local = f"codea1 data prepare {name}"
    if source.startswith(BUCKET):
        return f"{local} && gcloud storage rsync --recursive {PREPARED / name} {shlex.quote(source)}"
    return local if Path(folder) == PREPARED else f"{local} --out {shlex.quote(folder or '.')}"


@contextmanager
def on_disk(source: str) -> Iterator[str]:
    """A local path of `source`: for a bucket a copy that is deleted on exit. Raises ValueError if it cannot be read."""
    if not source.startswith(BUCKET):
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = f"{folder}/{source.rstrip('/').rpartition('/')[2]}"
        with _reading(source) as bucket:
            bucket.get(source, copy, recursive=True)
        yield copy


def _exists(source: str) -> bool:
    if source.startswith(BUCKET):
        with _reading(source) as bucket:
            return bucket.exists(source)
    try:
        return bool(files(source))
    except ValueError:
        return False


@contextmanager
def _reading(source: str) -> Iterator[Any]:
    """Google Cloud Storage. Raises ValueError for any error inside."""
    import gcsfs  # noqa: PLC0415  (half a second that few runs need to spend)

    try:
        yield gcsfs.GCSFileSystem()
    except Exception as error:  # gcsfs, aiohttp and google.auth share no class of errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"{source} cannot be read: {reason}") from error
