"""One door to every source of problems: the micro world by name, or a file whose format its fields tell."""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from data_pipeline import bigcodebench, evalplus, evalplus_release, kodcode, micro, problem_files, storage, unleaked
from data_pipeline.problem import Loaded, Problem
from data_pipeline.rows import BadRow, Row, read_rows

Split = Literal["train", "heldout", "all"]
Reader = Callable[[Sequence[Row | BadRow]], Loaded]

_HELD_OUT = 0.1
_FORMATS: tuple[tuple[str, frozenset[str], Reader], ...] = (
    ("KodCode", kodcode.FIELDS, kodcode.from_rows),
    ("problems", problem_files.FIELDS, problem_files.from_rows),
    ("BigCodeBench", bigcodebench.FIELDS, bigcodebench.from_rows),
    ("evalplus as released", evalplus_release.FIELDS, evalplus_release.from_rows),
    ("HumanEval+", evalplus.HUMANEVAL_FIELDS, evalplus.from_rows),
    ("MBPP+", evalplus.MBPP_FIELDS, evalplus.from_rows),
    ("evalplus for training", evalplus.TRAINING_FIELDS, evalplus.from_rows),
    ("UnLeakedTestBench", unleaked.FIELDS, unleaked.from_rows),
)


def load(source: str, split: Split = "train", count: int | None = None, seed: int = 0) -> Loaded:
    """The problems of a split of "micro", of a file (or a folder of them), or of a prepared dataset's folder.

    Files and folders may also lie in a bucket (gs://...). "all" is every problem; of a file one in ten is held out, of
    a prepared dataset what was written as "heldout". With `count`, that many are drawn by the seed (fewer where the
    source has fewer; the micro world always wants a count).
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


def read(path: str, difficulties: Sequence[str] = ()) -> Loaded:
    """Every row of a file or folder; of KodCode, if `difficulties` are given, only those. Raises as `load` does."""
    rows = read_rows(path)
    fields = _fields(rows)
    if not fields:
        raise ValueError(f"{path}: not one row is an object with fields")
    name, from_rows = _format(fields) or (None, None)
    if from_rows is None:
        known = "; ".join(f"{name} ({', '.join(sorted(required))})" for name, required, _ in _FORMATS)
        raise ValueError(f"{path}: fields {', '.join(sorted(fields[0]))} are of no known format: {known}")
    if difficulties and name != "KodCode":
        raise ValueError(f"{path}: {name} has no difficulties to choose from")
    return kodcode.from_rows(rows, difficulties) if difficulties else from_rows(rows)


def reader_of(rows: Sequence[Row | BadRow]) -> Reader:
    """What reads rows like the first of a known format; without one, they are read as somebody's own problems."""
    found = _format(_fields(rows))
    return found[1] if found else problem_files.from_rows


def _fields(rows: Sequence[Row | BadRow]) -> list[frozenset[str]]:
    """Of each row that has some."""
    return [frozenset(row) for row in rows if isinstance(row, dict)]


def _format(fields: Sequence[frozenset[str]]) -> tuple[str, Reader] | None:
    """That of the first row which has a known one."""
    known = ((name, read) for row in fields for name, required, read in _FORMATS if required <= row)
    return next(known, None)


def hold_out(
    problems: Sequence[Problem], share: float, at_most: int | None = None
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Training problems, and those held out: a share of all solutions, chosen by a hash, `at_most` that many.

    Two wordings of a problem have one solution, so they are never on different sides.
    """
    places = {problem: _place(problem.solution) for problem in problems}
    chosen = frozenset(sorted({place for place in places.values() if place < share})[:at_most])
    train = tuple(problem for problem in problems if places[problem] not in chosen)
    return train, tuple(problem for problem in problems if places[problem] in chosen)


def _place(solution: str) -> float:
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
