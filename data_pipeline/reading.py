"""Reads problems: of the micro world by name, or from a file whose format its fields show; and splits them."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from data_pipeline import micro, storage
from data_pipeline.problem import Loaded, Problem
from data_pipeline.rows import read_rows
from data_pipeline.sources import FORMATS, find_format

Split = Literal["train", "heldout", "all"]

_HELD_OUT = 0.1


def load(source: str, split: Split = "train", count: int | None = None, seed: int = 0) -> Loaded:
    """The problems of a split of "micro", of a file (or a folder of files), or of a prepared dataset's folder.

    Files and folders may also lie in a bucket (gs://...). "all" is every problem. One in ten problems of a file is held
    out; a prepared dataset has what was written as "heldout". With `count`, the seed draws that many (or all, if the
    source has fewer; the micro world always needs a count).
    Raises ValueError, in one line, for a source that is missing or unreadable and for an unknown split.
    """
    if split not in get_args(Split):
        raise ValueError(f"unknown split {split!r}; there are {', '.join(get_args(Split))}")
    if source == "micro":
        return _micro(split, count, seed)
    storage.check(source, storage.preparation(source))
    with storage.on_disk(source) as path:
        prepared = (Path(path) / "dataset_info.json").is_file()
        loaded = _prepared(path, split) if prepared else _split(read(path), split)
    problems = loaded.problems
    if count is not None and count < len(problems):
        problems = tuple(random.Random(f"{split} {seed}").sample(problems, count))
    return replace(loaded, problems=problems)


def read(path: str | Path, difficulties: Sequence[str] = ()) -> Loaded:
    """Every row of a file or folder, or those of some difficulties. Raises as `load` does."""
    rows = read_rows(path)
    fields = next((row.keys() for row in rows if isinstance(row, dict)), None)
    if fields is None:
        if not rows:
            raise ValueError(f"{path}: the file is empty")
        raise ValueError(f"{path}: no row is an object with fields")
    found = find_format(rows)
    if found is None:
        known = "; ".join(f"{each.name} ({', '.join(sorted(each.fields))})" for each in FORMATS)
        raise ValueError(f"{path}: fields {', '.join(sorted(fields))} are of no known format: {known}")
    if difficulties and not found.rated:
        raise ValueError(f"{path}: {found.name} has no difficulties to choose from")
    return found.read(rows, difficulties)


def hold_out(
    problems: Sequence[Problem], share: float, at_most: int | None = None
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Training problems, and those held out: a share of all solutions, chosen by a hash, `at_most` that many.

    Two wordings of a problem share one solution, so they are never on different sides.
    """
    positions = {problem: _position(problem.solution) for problem in problems}
    chosen = frozenset(sorted({position for position in positions.values() if position < share})[:at_most])
    train = tuple(problem for problem in problems if positions[problem] not in chosen)
    return train, tuple(problem for problem in problems if positions[problem] in chosen)


def _position(solution: str) -> float:
    """Where in [0, 1) a hash puts a solution."""
    return int.from_bytes(hashlib.sha256(solution.strip().encode()).digest()[:6]) / 2**48


def _micro(split: Split, count: int | None, seed: int) -> Loaded:
    if split == "all" or count is None:
        raise ValueError("the micro world wants a count of problems, of its train or its heldout split")
    return Loaded(micro.problems(split, count, seed))


def _split(loaded: Loaded, split: Split) -> Loaded:
    train, heldout = hold_out(loaded.problems, _HELD_OUT)
    return replace(loaded, problems={"train": train, "heldout": heldout, "all": loaded.problems}[split])


def _prepared(path: str, split: Split) -> Loaded:
    """A split as it was written, or all of them."""
    from data_pipeline import tfds_files  # noqa: PLC0415  (takes a second that most runs need not spend)

    written = tfds_files.read(path)
    chosen = written.values() if split == "all" else [written.get(split, ())]
    return Loaded(tuple(problem for members in chosen for problem in members))
