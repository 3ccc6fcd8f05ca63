"""Uploads to the Hugging Face Hub, or to what HF_ENDPOINT names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2
import huggingface_hub
import yaml
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import validate_repo_id

from codea1_jax.common.errors import UserError

CARD = "README.md"


@dataclass(frozen=True)
class Upload:
    repo: str
    kind: Literal["model", "dataset"]
    folder: Path

    def described(self) -> dict[str, Any]:
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        sizes = {path.relative_to(self.folder).as_posix(): path.stat().st_size for path in files}
        return {"repo": self.repo, "type": self.kind, "files": sizes, "card": (self.folder / CARD).read_text()}


def check_name(name: str) -> None:
    try:
        validate_repo_id(name)
        _owner, _repo = name.split("/")
    except ValueError:  # of either
        raise UserError(f"{name}: not the name of a repository; write user/name") from None


def licence_of(base: str | None) -> str | None:
    """The licence that a base model's card states, here or on the Hub; None if it cannot be known."""
    if base is None:
        return None
    try:
        card = Path(base) / CARD if Path(base).is_dir() else huggingface_hub.hf_hub_download(base, CARD)
        licence = (huggingface_hub.metadata_load(card) or {}).get("license")
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    return licence if isinstance(licence, str) else None


def send(uploads: Sequence[Upload], *, private: bool) -> None:
    """Makes the repositories that do not exist yet (private: for their owners alone), and sends the folders.

    Raises UserError if the Hub asks for another login, OSError if an upload fails.
    """
    api = huggingface_hub.HfApi()
    for each in uploads:
        try:
            api.create_repo(each.repo, repo_type=each.kind, private=private or None, exist_ok=True)
            api.upload_folder(
                repo_id=each.repo, repo_type=each.kind, folder_path=each.folder, commit_message="codea1 push"
            )
        except httpx2.HTTPError as error:
            if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403):
                raise UserError(
                    f"{each.repo}: the Hub refuses it; log in as who may write there: hf auth login"
                ) from error
            raise OSError(f"{each.repo}: {' '.join(str(error).split())}") from error


def summary_lines(described: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for each in described:
        lines.append(f"{each['type']} {each['repo']}")
        lines += [f"{size:>14,}  {name}" for name, size in each["files"].items()]
        lines += ["", each["card"].rstrip("\n"), ""]
    return lines
