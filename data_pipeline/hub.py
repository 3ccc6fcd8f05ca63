"""Data on this machine or on the Hugging Face Hub."""

import re
from pathlib import Path

import huggingface_hub

from data_pipeline.storage import PREPARED

_KNOWN_FILES = ["*.parquet", "*.json", "*.jsonl", "*.jsonl.gz"]


def hub_name(source: str) -> tuple[str, list[str]] | None:
    """The Hub dataset and the file patterns that `source` names; None if it names a path.

    "owner/name" is a whole dataset, "owner/name/data/train-*" its matching files. A path is never looked up on the Hub
    if its folder exists here or is that of prepared data, or if it begins with "/" or ".".
    """
    path = Path(source)
    on_hub = re.fullmatch(r"(\w[\w.-]*/\w[\w.-]*)(?:/(.+))?", source)
    if path.exists() or not on_hub or path.parent.is_dir() or path.parent == PREPARED:
        return None
    name, pattern = on_hub.groups()
    return name, [pattern] if pattern else _KNOWN_FILES


def local_path(source: str) -> Path:
    """The path that `source` names, or the download of a Hub dataset (see `hub_name`).

    Raises ValueError, in one line, if the data is available from neither.
    """
    on_hub = hub_name(source)
    if on_hub is None:
        return Path(source)
    name, patterns = on_hub
    try:
        root = huggingface_hub.snapshot_download(name, repo_type="dataset", allow_patterns=patterns)
    except (huggingface_hub.errors.HfHubHTTPError, OSError) as error:
        raise ValueError(f"{source}: no such file, nor available from the Hub: {why_unavailable(error)}") from error
    return Path(root) / ("" if patterns is _KNOWN_FILES else patterns[0])


def why_unavailable(error: Exception) -> str:
    if isinstance(error, huggingface_hub.errors.GatedRepoError):
        return "it is gated: accept its terms on huggingface.co and log in here (hf auth login)"
    if isinstance(error, huggingface_hub.errors.RepositoryNotFoundError):
        return "it is not there, or private (hf auth login)"
    if isinstance(error, huggingface_hub.errors.LocalEntryNotFoundError):  # also what a lost connection ends in
        cause = " ".join(str(error.__cause__ or "").split())
        return f"it cannot be reached, and its files are not in the cache{f' ({cause})' if cause else ''}"
    return " ".join(str(error).split())
