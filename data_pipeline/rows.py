"""Rows of a JSON, JSONL or parquet file, and their fields."""

import codecs
import gzip
import json
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from data_pipeline.problem import BadRow, Row, one_line

SUFFIXES = (".json", ".jsonl", ".jsonl.gz", ".parquet")
_BATCH = 64  # rows of a parquet file in memory: one of a competition may have megabytes of solutions

_MOST_DIGITS = 4_300  # of the integers that Python reads

_KINDS = {
    dict: "an object",
    int: "a number",
    float: "a number",
    Decimal: "a number",
    bool: "true or false",
    str: "a text",
    list: "a list",
    type(None): "null",
}


def read_rows(path: str | Path) -> Iterator[Row | BadRow]:
    """The rows of the files in order, read as they are asked for: datasets may be larger than the memory.

    A BadRow takes the place of a line that is not a JSON object. Raises ValueError, in one line, without any file, and
    for one of an unknown kind or that is unreadable as a whole.
    """
    return (row for _, row in numbered_rows(path))


def numbered_rows(path: str | Path) -> Iterator[tuple[int, Row | BadRow]]:
    """As `read_rows`, each with its number from 1 on; a blank line counts and is left out."""
    rows = (row for file in files(path) for row in _rows_of(file))
    return ((number, row) for number, row in enumerate(rows, start=1) if row is not None)


def files(path: str | Path) -> list[Path]:
    """The file itself, the files of known kinds in a folder, or those that match a pattern such as `data/train-*`.

    Sorted by name. Raises ValueError if there is none.
    """
    path = Path(path)
    if path.is_file():
        return [path]
    candidates = path.rglob("*") if path.is_dir() else path.parent.glob(path.name)
    known = sorted(file for file in candidates if file.is_file() and file.name.endswith(SUFFIXES))
    if not known:
        raise ValueError(f"{path}: no such file")
    return known


def _rows_of(path: Path) -> Iterator[Row | BadRow | None]:
    if not path.name.endswith(SUFFIXES):
        raise ValueError(f"{path}: unknown kind of file; known kinds: {', '.join(SUFFIXES)}")
    try:
        if path.name.endswith(".parquet"):
            yield from _rows_of_parquet(path)
            return
        data = path.read_bytes()
        data = gzip.decompress(data) if path.name.endswith(".gz") else data
        rows = _rows_of_json(data.removeprefix(codecs.BOM_UTF8))
    except (OSError, ValueError, EOFError, zlib.error, RecursionError) as error:
        raise ValueError(f"{path}: not readable as {path.suffix[1:]}: {one_line(error)}") from None
    yield from rows


def _rows_of_parquet(path: Path) -> Iterator[Row]:
    import pyarrow.parquet  # noqa: PLC0415  half a second that few runs need to spend

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OverflowError, LookupError, ImportError) as error:  # the last three: of its values
        raise ValueError(str(error)) from None


def _rows_of_json(content: bytes) -> Iterable[Row | BadRow | None]:
    """The rows of one document, a list, an object of rows, or a single row; else a row a line."""
    try:
        document = parsed_json(content.decode())
    except (ValueError, RecursionError):
        # Not splitlines, which also splits at other characters that JSON may hold.
        lines = [_parsed(line) if line.strip() else None for line in content.rstrip().split(b"\n")]
        if not any(isinstance(line, dict) for line in lines) and content.strip():
            raise
        return lines
    if isinstance(document, dict):
        are_rows = all(isinstance(value, dict) for value in document.values())
        document = list(document.values()) if are_rows else [document]
    return [_object(item) for item in (document if isinstance(document, list) else [document])]


def _parsed(line: bytes) -> Row | BadRow:
    try:
        return _object(parsed_json(line.decode()))
    except UnicodeDecodeError as error:
        return BadRow(f"not UTF-8: {one_line(error)}")
    except (ValueError, RecursionError) as error:  # such as a number with thousands of digits, or deeply nested lists
        return BadRow(f"not JSON: {one_line(error)}")


def _object(value: object) -> Row | BadRow:
    return value if isinstance(value, dict) else BadRow(f"{_KINDS[type(value)]}, not a JSON object")


def text(row: Row, *names: str) -> str:
    """The first of these fields that the row has. Raises BadRow if it is not a text, or blank."""
    for name in names:
        value = row.get(name)
        if value is not None:
            if not isinstance(value, str):
                raise BadRow(f"{name} is of type {type(value).__name__}, not text")
            if value.strip():
                return value
    raise BadRow(f"no {' or '.join(names)}")


def identity(row: Row, name: str) -> str:
    """A field that is a text or a whole number, as a text. Raises BadRow as `text` does."""
    value = row.get(name)
    return str(value) if isinstance(value, int) else text(row, name)


def mapping(value: object, what: str) -> Row:
    """An object; None is an empty one. Raises BadRow for anything else."""
    if not isinstance(value, dict | None):
        raise BadRow(f"{what} is not an object")
    return value or {}


def mappings(value: object, what: str) -> list[Row]:
    """A list of objects; None is an empty one. Raises BadRow for anything else."""
    found = [] if value is None else value
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise BadRow(f"{what} is not a list of objects")
    return found


def identifier(row: Row, name: str) -> str:
    """A field that is a name, as Python reads it: in the normal form NFKC. Raises BadRow as `text` does."""
    return unicodedata.normalize("NFKC", text(row, name))


def texts(row: Row, name: str) -> tuple[str, ...]:
    """A field that is a list of texts; empty where it is missing. Raises BadRow for anything else."""
    value = row.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRow(f"{name} is not a list of texts")
    return tuple(value)


def parsed_json(text: str) -> Any:
    """JSON as a value; a Decimal for an integer of more digits than Python reads. Raises ValueError, RecursionError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return json.loads(text, parse_int=lambda digits: Decimal(digits) if len(digits) > _MOST_DIGITS else int(digits))


def document(row: Row, name: str) -> Any:
    """A field that is JSON in a text, parsed; what is not a text stays. Raises BadRow for a text that is not JSON."""
    value = row.get(name)
    try:
        return parsed_json(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        raise BadRow(f"{name} is not JSON: {one_line(error)}") from None


def conversation(row: Row, name: str) -> str:
    """A field that is a list of {role, content}, as JSON; "" if not a list. Raises BadRow for other lists."""
    messages = row.get(name)
    if not isinstance(messages, list) or not messages:
        return ""
    kept = [{key: each.get(key) for key in ("role", "content")} for each in messages if isinstance(each, dict)]
    if len(kept) < len(messages) or not all(isinstance(text, str) for each in kept for text in each.values()):
        raise BadRow(f"{name} is not a conversation: a list of {{role, content}}")
    return json.dumps(kept)


def number(row: Row, name: str) -> float:
    """A field that is a number; 0 where it is missing. Raises BadRow for anything else."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise BadRow(f"{name} is {_KINDS[type(value)]}, not a number")
    try:
        return float(value or 0)
    except OverflowError:
        raise BadRow(f"{name} is larger than any float") from None
