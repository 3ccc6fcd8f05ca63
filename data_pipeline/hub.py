"""Data that may lie on this machine or on the Hugging Face Hub."""

import re
from pathlib import Path

import huggingface_hub


def local_path(source: str) -> Path:
    """The path that `source` names, or the folder that a dataset of the Hub, "owner/name", was downloaded to.

    Raises ValueError, in one line, where it is neither or cannot be had.
    """
    if Path(source).exists():
        return Path(source)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source) or source.startswith("."):
        raise ValueError(f"{source}: no such file, and no owner/name of the Hub")
    try:
        return Path(
            huggingface_hub.snapshot_download(source, repo_type="dataset", allow_patterns=["*.parquet", "*.json*"])
        )
    except (huggingface_hub.errors.HfHubHTTPError, huggingface_hub.errors.LocalEntryNotFoundError, OSError) as error:
        raise ValueError(
            f"{source}: no such file, nor to be had from the Hub: {' '.join(str(error).split())}"
        ) from None
