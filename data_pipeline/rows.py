"""Rows of a JSON, JSONL or parquet file; each is read as a problem, or refused with its id and a reason."""

import codecs
import gzip
import json
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from data_pipeline.problem import BadRow, Loaded, Problem, Refusal, Row, one_line

SUFFIXES = (".json", ".jsonl", ".jsonl.gz", ".parquet")


def read_rows(path: str | Path) -> list[Row | BadRow]:
    """The rows of the files in order; a BadRow takes the place of a line that is not a JSON object.

    Raises ValueError, in one line, if there is no file, or if one is of an unknown kind or unreadable as a whole.
    """
    return [row for _, row in numbered_rows(path)]


def numbered_rows(path: str | Path) -> list[tuple[int, Row | BadRow]]:
    """As `read_rows`, each with its number from 1 on; a blank line counts and is left out."""
    rows = (row for file in files(path) for row in _rows_of(file))
    return [(number, row) for number, row in enumerate(rows, start=1) if row is not None]


def files(path: str | Path) -> list[Path]:
    """The file itself, the files of known kinds in a folder, or those that match a pattern such as `data/train-*`.

    Sorted by name. Raises ValueError if there is none.
    """
    path = Path(path)
    if path.is_file():
        return [path]
    found = path.rglob("*") if path.is_dir() else path.parent.glob(path.name)
    known = sorted(file for file in found if file.is_file() and file.name.endswith(SUFFIXES))
    if not known:
        raise ValueError(f"{path}: no such file")
    return known


def _rows_of(path: Path) -> Sequence[Row | BadRow | None]:
    """The rows of a file; None for a blank line."""
    try:
        if path.name.endswith(".parquet"):
            from data_pipeline.parquet import rows_of_parquet  # noqa: PLC0415  few runs read any

            return rows_of_parquet(path)
        if path.name.endswith((".jsonl", ".jsonl.gz")):
            return _of_lines(_bytes(path))
        if path.name.endswith(".json"):
            return _of_json(_bytes(path))
    except (OSError, ValueError, OverflowError, LookupError, EOFError, zlib.error, RecursionError) as error:
        raise ValueError(f"{path}: not readable as {path.suffix[1:]}: {one_line(error)}") from None
    raise ValueError(f"{path}: unknown kind of file; known kinds: {', '.join(SUFFIXES)}")


def _lines(content: bytes) -> list[Row | BadRow | None]:
    # Not splitlines, which also splits at other characters that JSON may hold.
    return [_parsed(line) if line.strip() else None for line in content.rstrip().split(b"\n")]


def _of_lines(content: bytes) -> Sequence[Row | BadRow | None]:
    """A row a line; where no line is one, the rows of a list that the file may be instead."""
    lines = _lines(content)
    if content.lstrip().startswith(b"[") and not any(isinstance(line, dict) for line in lines):
        try:
            return _items(json.loads(content))
        except (ValueError, RecursionError):
            return lines
    return lines


def _of_json(content: bytes) -> Sequence[Row | BadRow | None]:
    """A list of rows, one object whose values are rows, one row, or lines, each of them a row."""
    try:
        document = json.loads(content.decode())
    except json.JSONDecodeError:
        lines = _lines(content)
        if not any(isinstance(line, dict) for line in lines):
            raise
        return lines
    if isinstance(document, dict) and not all(isinstance(value, dict) for value in document.values()):
        return [document]
    return _items(document)


def collect(
    rows: Sequence[Row | BadRow],
    id_of: Callable[[Row], str],
    read: Callable[[Row], Problem],
    dropped_of: Callable[[Row], Sequence[str]],
) -> Loaded:
    """Reads every row; a bad row, or one with the id of an earlier row, is refused with the reason."""
    problems: dict[str, Problem] = {}
    refused = []
    dropped: list[Refusal] = []
    for number, row in enumerate(rows, start=1):
        name = f"row {number}"
        try:
            if isinstance(row, BadRow):
                raise row
            name = id_of(row)
            if name in problems:
                raise BadRow(f"row {number} has the id of an earlier row")
            problems[name] = _problem(row, read)
            dropped += [Refusal(name, one_line(reason)) for reason in dropped_of(row)]
        except BadRow as error:
            refused.append(Refusal(name, one_line(error)))
    return Loaded(tuple(problems.values()), tuple(refused), tuple(dropped))


def _problem(row: Row, read: Callable[[Row], Problem]) -> Problem:
    """The row as a problem that every file, program and prompt can hold. Raises BadRow."""
    try:
        problem = read(row)
    except RecursionError:  # walking over a syntax tree recurses deeper than parsing
        raise BadRow("nested too deeply") from None
    for name, value in vars(problem).items():
        try:
            ("" if isinstance(value, float) else "".join(value)).encode()
        except UnicodeEncodeError as error:  # JSON can hold lone surrogates
            raise BadRow(f"its {name} holds half a character: {error.object[error.start]!a}") from None
    return problem


def text(row: Row, *names: str) -> str:
    """The first of these fields that the row has. Raises BadRow if it is not a text, or blank."""
    for name in names:
        value = row.get(name)
        if isinstance(value, BadRow):
            raise value
        if value is not None:
            if not isinstance(value, str):
                raise BadRow(f"{name} is of type {type(value).__name__}, not text")
            if value.strip():
                return value
    raise BadRow(f"no {' or '.join(names)}")


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


def conversation(row: Row, name: str) -> str:
    """A field that is a conversation, a list of {role, content}, as JSON; "" if it is missing or not a list.

    Raises BadRow for a list of anything else.
    """
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
    if isinstance(value, BadRow):
        raise value
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise BadRow(f"{name} is {_KINDS[type(value)]}, not a number")
    try:
        return float(value or 0)
    except OverflowError:
        raise BadRow(f"{name} is larger than any float") from None


_KINDS = {
    dict: "an object",
    int: "a number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list: "a list",
    type(None): "null",
}


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    data = gzip.decompress(data) if path.name.endswith(".gz") else data
    return data.removeprefix(codecs.BOM_UTF8)


def _parsed(line: bytes) -> Row | BadRow:
    try:
        return _object(json.loads(line.decode()))
    except UnicodeDecodeError as error:
        return BadRow(f"not UTF-8: {one_line(error)}")
    except (ValueError, RecursionError) as error:  # such as a number with thousands of digits, or deeply nested lists
        return BadRow(f"not JSON: {one_line(error)}")


def _items(document: object) -> list[Row | BadRow]:
    """The rows of a list, or of one object whose values they are."""
    if isinstance(document, dict):
        document = list(document.values())
    return [_object(item) for item in document] if isinstance(document, list) else [_object(document)]


def _object(value: object) -> Row | BadRow:
    return value if isinstance(value, dict) else BadRow(f"{_KINDS[type(value)]}, not a JSON object")
