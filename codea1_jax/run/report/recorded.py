"""Reads what a run has recorded. What is damaged is left out, with a warning that names it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

logger = logging.getLogger(__name__)


def leave_out(what: str) -> None:
    logger.warning("left out: %s", what)


def read_objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the objects of a JSONL file one by one, whatever its size; nothing if the file does not exist."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield _object(line)
            except (ValueError, RecursionError) as error:  # bytes that are not UTF-8 are a ValueError, too
                leave_out(f"{path}, line {number}: {_reason(line, error)}")


def read_document(path: Path) -> Mapping[str, Any]:
    """A JSON file; empty if there is none."""
    if not path.exists():
        return {}
    try:
        return _object(path.read_bytes())
    except (ValueError, RecursionError) as error:
        leave_out(f"{path}: {error}")
        return {}


def parse_config(text: str, path: Path) -> Any:
    """The configuration in the text of a file; None if it is no YAML."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        leave_out(f"{path}: not YAML: {' '.join(str(error).split())}")
        return None


def _object(content: bytes) -> dict[str, Any]:
    value = json.loads(content.decode(), parse_constant=_refuse)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _reason(line: bytes, error: Exception) -> str:
    return str(error) if line.endswith(b"\n") else "it is cut short"
