"""A shape in which rows come: how to recognise one, and how to read it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from data_pipeline.problem import BadRow, Loaded, Problem, Refusal, Row, one_line, visible

_MOST_SECONDS = 600
_MOST_MEMORY_MB = 1 << 16


@dataclass(frozen=True)
class Format:
    """How rows of one shape become problems. Its functions raise BadRow."""

    name: str
    """what messages call it"""
    fields: frozenset[str]
    """a row with all of these fields has this format"""
    id_of: Callable[[Row], str]
    problem_of: Callable[[Row, str], Problem]
    """of a row and its id"""
    dropped_of: Callable[[Row], Sequence[str]] = lambda _row: ()
    """why tests of a row that is read as a problem are left out of it, one reason a test"""
    difficulty_of: Callable[[Row], object] | None = None
    """how a row is rated; None: rows are not"""
    exact: bool = False
    """a row with more fields has another format"""

    def fits(self, row: Row) -> bool:
        return self.fields == row.keys() if self.exact else self.fields <= row.keys()

    def read(self, rows: Iterable[Row | BadRow], difficulties: Sequence[str] = ()) -> Loaded:
        """Every row as a problem, or refused by its id with the reason; with `difficulties`, only rows rated so."""
        problems: dict[str, Problem] = {}
        refused: list[Refusal] = []
        dropped: list[Refusal] = []
        for number, row in enumerate(rows, start=1):
            name = f"row {number}"
            try:
                if isinstance(row, BadRow):
                    raise row
                name = visible(self.id_of(row))
                if name in problems:
                    raise BadRow(f"row {number} has the id of an earlier row")
                difficulty = self.difficulty_of and self.difficulty_of(row)
                if difficulties and difficulty not in difficulties:
                    raise BadRow(f"difficulty {difficulty}")
                problems[name] = self._problem(row, name)
                dropped += [Refusal(name, one_line(reason)) for reason in self.dropped_of(row)]
            except BadRow as error:
                refused.append(Refusal(name, one_line(error)))
        return Loaded(tuple(problems.values()), tuple(refused), tuple(dropped))

    def _problem(self, row: Row, name: str) -> Problem:
        """The row as a problem that every file, program and prompt can hold."""
        try:
            problem = self.problem_of(row, name)
        except RecursionError:  # walking over a syntax tree recurses deeper than parsing
            raise BadRow("nested too deeply") from None
        if not 0 <= problem.seconds <= _MOST_SECONDS:  # which a nan is not
            raise BadRow(f"{problem.seconds:g} seconds for a test; allowed: 0 to {_MOST_SECONDS}")
        if not 0 <= problem.memory_mb <= _MOST_MEMORY_MB:
            raise BadRow(f"a memory of {problem.memory_mb:g} MB; allowed: 0 to {_MOST_MEMORY_MB}")
        for field, value in vars(problem).items():
            try:
                ("" if isinstance(value, float) else "".join(value)).encode()
            except UnicodeEncodeError as error:  # JSON can hold lone surrogates
                raise BadRow(f"its {field} holds half a character: {error.object[error.start]!a}") from None
        return problem
