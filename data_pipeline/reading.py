"""Reads problems from a file whose format its fields show, or from a prepared dataset; and holds some of them out."""

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path

from data_pipeline import storage
from data_pipeline.problem import BadRow, Loaded, Problem, Row
from data_pipeline.rows import read_rows
from data_pipeline.sources import FORMATS, find_format


def load(source: str, difficulties: Sequence[str] = ()) -> Loaded:
    """The problems of a file, of a folder of files, or of a prepared dataset's folder; also of one in a bucket (gs://).

    With difficulties, those that are rated so, where the source says. Raises ValueError, in one line, for a source that
    is missing or unreadable.
    """
    storage.check(source, storage.preparation(source))
    with storage.on_disk(source) as path:
        if (Path(path) / "dataset_info.json").is_file():
            from data_pipeline import tfds_files  # noqa: PLC0415  (takes a second that most runs need not spend)

            if difficulties:
                raise ValueError(f"{source}: a prepared dataset has no difficulties to choose from")
            return Loaded(tfds_files.read(path))
        return read(path, difficulties)


def read(path: str | Path, difficulties: Sequence[str] = ()) -> Loaded:
    """Every row of a file or folder, or those of some difficulties. Raises as `load` does."""
    rows, ahead = itertools.tee(read_rows(path))
    row_format = find_format(ahead)
    del ahead  # which would keep every row
    if row_format is None:
        raise _unknown(path, list(rows))
    if difficulties and row_format.difficulty_of is None:
        raise ValueError(f"{path}: {row_format.name} has no difficulties to choose from")
    return row_format.read(rows, difficulties)


def _unknown(path: str | Path, rows: Sequence[Row | BadRow]) -> ValueError:
    fields = next((row.keys() for row in rows if isinstance(row, dict)), None)
    if fields is None and rows:
        return ValueError(f"{path}: no row is an object with fields")
    if fields is None:
        return ValueError(f"{path}: the file is empty")
    known = "; ".join(f"{each.name} ({', '.join(sorted(each.fields))})" for each in FORMATS)
    return ValueError(f"{path}: fields {', '.join(sorted(fields))} are of no known format: {known}")


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
    return int.from_bytes(hashlib.sha256(solution.strip().encode()).digest()[:6]) / 2**48
