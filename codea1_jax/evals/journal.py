"""The folder of one evaluation: what was asked, what was done so far, line by line, and the figures at the end.

An evaluation that was interrupted takes up where it stopped: what a file of lines holds is not done again.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from codea1_jax.common.errors import UserError
from codea1_jax.common.files import naming, write_atomically
from data_pipeline import Problem

CONFIG_FILE = "config.json"
SUMMARY_FILE = "summary.json"
RESULTS_FILE = "results.jsonl"

Record = Mapping[str, Any]
Progress = Callable[[int, int], None]  # (done, total) ->
Ask = Callable[[Sequence[Problem], Mapping[Problem, Sequence[str]]], Iterable[tuple[Problem, str]]]

T = TypeVar("T")


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
                    f"{directory} holds an evaluation with {key}={before.get(key)!r}, not {config.get(key)!r}; "
                    "choose another folder"
                )
        elif any(self.path.iterdir()):
            raise UserError(f"{directory} is not empty and holds no evaluation; choose another folder")
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
        with naming(self.path / name), (self.path / name).open("a") as file:
            file.write("".join(json.dumps(record) + "\n" for record in records))

    def rewrite(self, name: str, records: Iterable[Record]) -> None:
        write_atomically(self.path / name, "".join(json.dumps(record) + "\n" for record in records))

    def completed(
        self,
        name: str,
        kind: type[T],
        make: Callable[[Collection[str]], Iterable[T]],
        progress: Callable[[int], None] = lambda done: None,
    ) -> dict[str, T]:
        """The records of one file by their `task_id`: those of earlier sessions, and what `make` gives for the rest.

        kind: a dataclass with a task_id. make: is given the ids that are done. progress: is shown how many are.
        """
        reader = TypeAdapter(kind)
        records = {line["task_id"]: reader.validate_python(line) for line in self.lines(name)}
        progress(len(records))
        for record in make(records.keys()):
            line = asdict(record)  # pyright: ignore[reportArgumentType]
            self.add(name, [line])
            records[line["task_id"]] = record
            progress(len(records))
        return records

    def rounds(self, name: str, problems: Sequence[Problem], rounds: int, ask: Ask) -> dict[Problem, list[str]]:
        """The responses of all rounds, by problem; what earlier sessions have is not asked for again.

        ask: gives one response for each of these problems, after those that it has, and has the journal keep it.
        """
        texts: dict[Problem, list[str]] = {problem: [] for problem in problems}
        by_id = {problem.id: problem for problem in problems}
        for line in self.lines(name):
            if problem := by_id.get(line["task_id"]):
                texts[problem].append(line["response"])
        for round_ in range(rounds):
            asked = [problem for problem, earlier in texts.items() if len(earlier) == round_]
            for problem, text in ask(asked, texts):
                texts[problem].append(text)
        return texts

    def finish(self, summary: Record) -> None:
        write_atomically(self.path / SUMMARY_FILE, json.dumps(summary, indent=2) + "\n")
