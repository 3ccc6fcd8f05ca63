"""The folder of one evaluation: what was asked, what was done so far, line by line, and the figures at the end.

An evaluation that was interrupted takes up where it stopped: what a file of lines holds is not done again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import naming, write_atomically

CONFIG_FILE = "config.json"
SUMMARY_FILE = "summary.json"

Record = Mapping[str, Any]


class Journal:
    """One evaluation's folder. Lines are JSON objects, each on disk as soon as it is added."""

    def __init__(self, directory: str | Path, config: Record) -> None:
        """Opens the folder for the evaluation that `config` describes.

        Raises UserError if it holds another one.
        """
        self.path = Path(directory)
        self.path.mkdir(parents=True, exist_ok=True)
        known = self.path / CONFIG_FILE
        if known.exists():
            before = json.loads(known.read_text())
            differing = sorted(key for key in before.keys() | config.keys() if before.get(key) != config.get(key))
            if differing:
                key = differing[0]
                raise UserError(
                    f"--out: {directory} holds an evaluation with {key}={before.get(key)!r}, not {config.get(key)!r}; "
                    "choose another folder"
                )
        elif any(self.path.iterdir()):
            raise UserError(f"--out: {directory} is not empty and holds no evaluation; choose another folder")
        else:
            write_atomically(known, json.dumps(config, indent=2) + "\n")

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of one file so far; a last line that an interruption cut short is taken off it."""
        path = self.path / name
        written = path.read_text().split("\n") if path.exists() else [""]
        if written[-1]:
            write_atomically(path, "".join(line + "\n" for line in written[:-1]))
        return [json.loads(line) for line in written[:-1]]

    def add(self, name: str, records: Iterable[Record]) -> None:
        """Appends lines to one file."""
        with naming(self.path / name), (self.path / name).open("a") as file:
            file.write("".join(json.dumps(record) + "\n" for record in records))

    def rewrite(self, name: str, records: Iterable[Record]) -> None:
        """Puts these lines in the place of one file's."""
        write_atomically(self.path / name, "".join(json.dumps(record) + "\n" for record in records))

    def finish(self, summary: Record) -> None:
        """Writes the figures."""
        write_atomically(self.path / SUMMARY_FILE, json.dumps(summary, indent=2) + "\n")
