"""The tables: for every row and seed, the commands whose figures it shows.

A laboratory decides how models are trained and by what they are measured: the micro world (`micro_lab`), or the paper's
models and benchmarks (`paper_lab`). What rows need, and that they share it, is the same in both: α = 0.5 is a1, and
human golden tests are golden.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from codea1_jax.reproduce.commands import Command, Needs, Words
from codea1_jax.reproduce.published import Published

AUTHORS = {"static_base": "base", "static_sft": "sft", "static_a1": "a1"}  # whose tests supervise these methods
STARTS = {"a1_from_sft": "sft"}  # whose Test LLM these methods start from

QUESTIONS = "problems.jsonl"  # what `codea1 eval suites` writes

DYNAMICS = {
    "code reward": "code/reward",
    "test reward": "test/reward",
    "validity": "test/validity",
    "pass rate": "pass_rate",
    "pass rate on the book": "book/pass_rate",
    "tests added to the book": "book/added",
    "tests removed from the book": "book/removed",
    "tokens, Code LLM (self_play: both roles)": "code/response_tokens",
    "tokens, Test LLM": "test/response_tokens",
}
"""Columns of the table of training, each with its metric."""


@dataclass(frozen=True)
class Figure:
    """Where a number is found: the command that measures it, its name there, and the benchmark (None: the only one)."""

    command: Command
    key: str
    benchmark: str | None = None


@dataclass(frozen=True)
class Model:
    """A pair of models: what `--model` calls it, the commands that make it, and its training run; None: untrained."""

    place: str
    needs: Needs
    run: Command | None


@dataclass(frozen=True)
class TableRow:
    """A line of a table, by seed.

    figures: for every column those whose mean it shows, none where it shows nothing. run: its training, if any.
    """

    name: str
    figures: Callable[[int], tuple[tuple[Figure, ...], ...]]
    run: Callable[[int], Command | None]

    def commands(self, seed: int) -> tuple[Command, ...]:
        run = self.run(seed)
        measured = (figure.command for column in self.figures(seed) for figure in column)
        return tuple(dict.fromkeys((*(() if run is None else (run,)), *measured)))


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


@runtime_checkable
class Lab(Protocol):
    def shown(self, papers: Mapping[str, Published]) -> dict[str, Published]:
        """The paper's tables as far as they can be compared with what is measured."""
        ...

    def columns(self, table: str) -> tuple[str, ...]:
        """The titles of what is measured; none for the table of training."""
        ...

    def rules(self, columns: Collection[str]) -> str:
        """By which rules a table with these columns is trained and measured, in a line."""
        ...

    def train(self, method: str, seed: int, overrides: Words, needs: Needs) -> Model:
        """Trains by a method. overrides: what it learns or starts from, made by the commands that it needs."""
        ...

    def suites(self, author: str, seed: int) -> Command:
        """Lets the Test LLM of a method write tests, once and for all, for the training questions."""
        ...

    def figures(self, table: str, methods: tuple[str, ...], seed: int) -> tuple[tuple[Figure, ...], ...]:
        """The figures of a row, by column. methods: one, or the Code LLM's and the Test LLM's put together."""
        ...


def tables(lab: Lab, papers: Mapping[str, Published]) -> dict[str, Table]:
    made = {}
    for name, paper in papers.items():
        rows = (
            TableRow(row, partial(lab.figures, name, methods), partial(_run, lab, methods))
            for row, methods in paper.rows.items()
        )
        made[name] = Table(name, paper.title, lab.columns(name) or tuple(DYNAMICS), tuple(rows))
    return made


def trained(lab: Lab, method: str, seed: int) -> Model:
    """A method's models, after what it needs: the tests it learns from, or the Test LLM it starts from."""
    overrides: Words = ()
    needs: Needs = ()
    if method in AUTHORS:
        suites = lab.suites(AUTHORS[method], seed)
        overrides, needs = (f"data.golden_tests={suites.directory / QUESTIONS}",), (suites,)
    if method in STARTS:
        start = trained(lab, STARTS[method], seed)
        overrides, needs = (f"test.start={start.place}",), start.needs
    return lab.train(method, seed, overrides, needs)


def _run(lab: Lab, methods: tuple[str, ...], seed: int) -> Command | None:
    return trained(lab, methods[0], seed).run if len(methods) == 1 else None
