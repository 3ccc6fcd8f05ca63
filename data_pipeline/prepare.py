"""From raw rows to a clean, versioned dataset and a manifest that accounts for every row.

In order: read and refuse malformed rows; keep the wanted difficulties; drop duplicates and what overlaps with the
evaluation sets; remove answers from the questions; run every solution against its tests; write. The same input gives
the same bytes, and an interrupted run reuses the sandbox results that it has saved.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from data_pipeline import tfds_files
from data_pipeline.dataset import Splits
from data_pipeline.hub import local_path
from data_pipeline.leakage import drop_duplicates, drop_overlaps, without_answers
from data_pipeline.problem import Loaded, Problem, Refusal
from data_pipeline.reading import read
from data_pipeline.rows import files
from data_pipeline.sources import find_dataset
from data_pipeline.validate import failures
from sandbox import Judge

_CHUNK = 64

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Recipe:
    """What to prepare, and how."""

    name: str
    """of a dataset in `sources.DATASETS`"""
    source: str
    """files, in the form that `local_path` and `rows.files` take; empty for a generated dataset"""
    difficulties: tuple[str, ...] = ()
    """those to keep; empty for all"""
    against: tuple[str, ...] = ()
    """evaluation sets that a training set may not overlap, as sources"""


def default_recipe(name: str) -> Recipe:
    """How a dataset is prepared by default, with an empty source where the user has to name the files.

    Raises ValueError for an unknown name.
    """
    dataset = find_dataset(name)
    return Recipe(name, dataset.download or "", dataset.difficulties, dataset.against)


@dataclass(frozen=True)
class Manifest:
    """Accounts for every row: `dropped` counts the refused rows by kind of reason, `refused` gives each its reason."""

    name: str
    version: str
    input_sha256: str
    kept: dict[str, int]
    questions_stripped: int
    dropped: dict[str, int]
    refused: list[Refusal]
    dropped_tests: list[Refusal]
    files_sha256: dict[str, str]

    def as_document(self) -> dict[str, Any]:
        """The content of `manifest.json`."""
        return asdict(self)


def prepare(
    recipe: Recipe, directory: str | Path, judge: Judge, progress: Progress | None = None
) -> tuple[Path, Manifest]:
    """Writes the dataset below `directory`, with a `manifest.json` among its files; `progress` gets (done, all).

    A training set is cleaned and written as one split "train"; each run holds out its own share. A benchmark keeps
    every readable problem, in one split "test". Raises ValueError, in one line, for a source that cannot be read or
    that has no problems left, and sandbox.SandboxError if the sandbox itself fails.
    """
    dataset = find_dataset(recipe.name)
    if dataset.generate is not None:
        return _write(recipe, directory, dataset.generate(), Loaded(()), 0, "")
    path = local_path(recipe.source)
    loaded = _only(recipe.name, read(path, recipe.difficulties))
    stripped = 0
    if dataset.is_training_set:
        evaluation = [problem for other in recipe.against for problem in read(local_path(other)).problems]
        loaded, stripped = _cleaned(loaded, evaluation)
        loaded = _validated(loaded, judge, Path(directory) / f"{recipe.name}.validated.jsonl", progress)
    if not loaded.problems:
        reasons = ", ".join(f"{count} {kind}" for kind, count in _dropped(loaded.refused).items())
        raise ValueError(f"{recipe.source}: no problems are left of {len(loaded.refused)} rows ({reasons})")
    splits = {"train" if dataset.is_training_set else "test": loaded.problems}
    return _write(recipe, directory, splits, loaded, stripped, _sha256(*files(path)))


def _only(name: str, loaded: Loaded) -> Loaded:
    """A file may hold several benchmarks; problems of other datasets are refused."""
    return loaded.refusing({p.id: f"belongs to {p.source}" for p in loaded.problems if p.source != name})


def _cleaned(loaded: Loaded, evaluation: Sequence[Problem]) -> tuple[Loaded, int]:
    """The problems without duplicates, overlaps and answers in questions, and how many questions held answers."""
    loaded = drop_overlaps(drop_duplicates(loaded), evaluation)
    clean = tuple(without_answers(problem) for problem in loaded.problems)
    stripped = sum(before != after for before, after in zip(loaded.problems, clean, strict=True))
    return replace(loaded, problems=clean), stripped


def _validated(loaded: Loaded, judge: Judge, journal: Path, progress: Progress | None) -> Loaded:
    """As `validate`, but in chunks; results are saved to the journal at once, and those already in it are reused."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    known = _read_journal(journal)
    keys = {problem.id: _key(problem) for problem in loaded.problems}
    todo = [problem for problem in loaded.problems if keys[problem.id] not in known]
    with journal.open("a") as lines:
        for start in range(0, len(todo), _CHUNK):
            chunk = todo[start : start + _CHUNK]
            for problem, reason in zip(chunk, failures(chunk, judge), strict=True):
                known[keys[problem.id]] = reason
                lines.write(json.dumps([keys[problem.id], reason]) + "\n")
            lines.flush()
            if progress:
                progress(len(keys) - len(todo) + start + len(chunk), len(keys))
    reasons = {problem.id: known[keys[problem.id]] for problem in loaded.problems}
    return loaded.refusing({name: reason for name, reason in reasons.items() if reason is not None})


def _read_journal(journal: Path) -> dict[str, str | None]:
    """The results in a journal; a last line that an interruption cut short is removed from the file."""
    lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
    if lines and not lines[-1].endswith("\n"):
        journal.write_text("".join(lines := lines[:-1]))
    return dict(json.loads(line) for line in lines)


def _key(problem: Problem) -> str:
    content = json.dumps([problem.solution, problem.entry_point, problem.golden_tests])
    return hashlib.sha256(content.encode()).hexdigest()


def _write(
    recipe: Recipe, directory: str | Path, splits: Splits, loaded: Loaded, stripped: int, input_sha256: str
) -> tuple[Path, Manifest]:
    path = tfds_files.write(directory, recipe.name, splits)
    manifest = Manifest(
        name=recipe.name,
        version=tfds_files.FORMAT_VERSION,
        input_sha256=input_sha256,
        kept={split: len(problems) for split, problems in splits.items()},
        questions_stripped=stripped,
        dropped=_dropped(loaded.refused),
        refused=list(loaded.refused),
        dropped_tests=list(loaded.dropped),
        files_sha256={file.name: _sha256(file) for file in sorted(path.iterdir())},
    )
    (path / "manifest.json").write_text(json.dumps(manifest.as_document(), indent=2) + "\n")
    return path, manifest


def _dropped(refused: Sequence[Refusal]) -> dict[str, int]:
    """How many were refused for each kind of reason, most common first."""
    return dict(Counter(_kind(refusal.reason) for refusal in refused).most_common())


def _kind(reason: str) -> str:
    """The reason without its details: numbers, and whatever follows a colon."""
    return re.sub(r"\d+", "N", reason.partition(":")[0])


def _sha256(*files: Path) -> str:
    """The hash of the files' contents, concatenated."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
