"""Rows of a parquet file. Apart from other forms, for pyarrow takes half a second to import and 150 MB to install."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from data_pipeline.problem import BadRow, Row, one_line

# What Arrow raises for a file or a column, and what turning its values into Python's does.
_UNREADABLE = (pyarrow.ArrowException, OSError, ValueError, OverflowError, LookupError, ImportError)


def rows_of_parquet(path: Path) -> list[Row]:
    """The rows; a column that cannot be read holds the reason in each of them, for whoever needs it.

    Raises ValueError if no column can be read.
    """
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            return _rows(file)
    except _UNREADABLE as error:
        raise ValueError(str(error)) from None


def _rows(file: pyarrow.parquet.ParquetFile) -> list[Row]:
    try:
        return list(file.read().to_pylist())
    except _UNREADABLE:
        columns = {name: _column(file, name) for name in file.schema_arrow.names}
        if all(isinstance(column, BadRow) for column in columns.values()):
            raise
        return [
            {name: column if isinstance(column, BadRow) else column[i] for name, column in columns.items()}
            for i in range(file.metadata.num_rows)
        ]


def _column(file: pyarrow.parquet.ParquetFile, name: str) -> list[Any] | BadRow:
    try:
        return file.read(columns=[name]).column(0).to_pylist()
    except _UNREADABLE as error:
        return BadRow(f"the column {name} cannot be read: {one_line(error)}")
