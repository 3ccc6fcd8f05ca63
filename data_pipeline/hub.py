"""Data that may lie on this machine or on the Hugging Face Hub."""

import re
from pathlib import Path

import huggingface_hub

_KNOWN_FILES = ["*.parquet", "*.json", "*.jsonl", "*.jsonl.gz"]


def local_path(source: str) -> Path:
    """The path that `source` names, or where a dataset of the Hub was downloaded to.

    On the Hub, "owner/name" is the whole dataset, "owner/name/data/train-*" those of its files that match. A path whose
    folder exists here, or that begins with "/" or ".", is never looked for there. Raises ValueError, in one line, where
    the data can be had from neither.
    """
    path = Path(source)
    on_hub = re.fullmatch(r"(\w[\w.-]*/\w[\w.-]*)(?:/(.+))?", source)
    if path.exists() or not on_hub or path.parent.is_dir():
        return path
    name, pattern = on_hub.groups()
    try:
        root = huggingface_hub.snapshot_download(
            name, repo_type="dataset", allow_patterns=[pattern] if pattern else _KNOWN_FILES
        )
    except (huggingface_hub.errors.HfHubHTTPError, huggingface_hub.errors.LocalEntryNotFoundError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{source}: no such file, nor to be had from the Hub: {reason}") from None
    return Path(root) / (pattern or "")
