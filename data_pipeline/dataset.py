"""What a dataset is. One module describes each; `data_pipeline/sources.py` lists them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from data_pipeline.problem import Loaded, Problem
from data_pipeline.rows import BadRow, Row, collect

Splits = Mapping[str, Sequence[Problem]]


@dataclass(frozen=True)
class Format:
    """A shape in which rows come: how to recognise one and how to read it. Both readers raise BadRow."""

    name: str
    """what messages call it"""
    fields: frozenset[str]
    """a row with all of these fields has this format"""
    id_of: Callable[[Row], str]
    problem_of: Callable[[Row], Problem]
    dropped_of: Callable[[Row], Sequence[str]] = lambda _row: ()
    """why tests of a row that is read as a problem are left out of it, one reason a test"""
    difficulty_field: str | None = None
    """the field that rates a row, if there is one"""
    difficulty: str | None = None
    """how all rows are rated, if no field says it"""

    @property
    def rated(self) -> bool:
        """Whether rows have a difficulty."""
        return (self.difficulty_field or self.difficulty) is not None

    def read(self, rows: Sequence[Row | BadRow], difficulties: Sequence[str] = ()) -> Loaded:
        """Every row as a problem, or refused by its id with the reason; with `difficulties`, only those.

        Only a format that is `rated` can be asked for difficulties.
        """

        def read_one(row: Row) -> Problem:
            difficulty = self.difficulty or row.get(self.difficulty_field or "")
            if difficulties and difficulty not in difficulties:
                raise BadRow(f"difficulty {difficulty}")
            return self.problem_of(row)

        return collect(rows, self.id_of, read_one, self.dropped_of)


@dataclass(frozen=True)
class Dataset:
    """Problems with one name, which is also their `Problem.source`."""

    name: str
    title: str
    formats: tuple[Format, ...] = ()
    """the shapes in which its rows are found"""
    is_training_set: bool = False
    """cleaned when prepared, and written as a split "train"; a benchmark is kept whole, as a split "test"."""
    download: str | None = None
    """what `codea1 data prepare` reads by default, as `hub.local_path` takes it; None: the user names the files"""
    difficulties: tuple[str, ...] = ()
    """what it keeps of the download by default; empty: all"""
    against: tuple[str, ...] = ()
    """evaluation sets that the download may not overlap by default, as `hub.local_path` takes them"""
    published: int | None = None
    """how many questions the paper trains on"""
    generate: Callable[[], Splits] | None = None
    """makes the problems of a dataset that has no files"""
