"""What a run reads its questions from: whether it is there, and the command that creates it where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import data_pipeline
from codea1_jax.common.errors import UserError
from codea1_jax.config import DataConfig
from data_pipeline import storage
from data_pipeline.reading import hold_out, without_those_of


@dataclass(frozen=True)
class Source:
    """Questions, or their golden tests, at a path or in a bucket.

    key: of the configuration. command: creates what is missing; None for files that only their owner can have.
    """

    key: str
    place: str
    command: str | None


def sources_of(data: DataConfig) -> tuple[Source, ...]:
    """Everything that is read; the micro world needs nothing."""
    found = [] if data.source == "micro" else [Source("data.source", data.source, storage.preparation(data.source))]
    if data.heldout is not None:
        found.append(Source("data.heldout", data.heldout, storage.preparation(data.heldout)))
    if data.golden_tests is not None:
        folder = data.golden_tests.rpartition("/")[0] or "."
        questions = "QUESTIONS" if data.source == "micro" else data.source
        command = f"codea1 eval suites --data {questions} --model RUN --out {folder}"
        found.append(Source("data.golden_tests", data.golden_tests, command))
    return tuple(found)


class QuestionCounts(NamedTuple):
    """How many questions a run trains on, holds out, and refuses."""

    train: int
    heldout: int
    refused: int


def count_questions(data: DataConfig) -> QuestionCounts:
    """As a run reads them, but without running the references, of which it refuses those that fail their own tests.

    Raises ValueError for a source that cannot be read.
    """
    if data.source == "micro":
        return QuestionCounts(data.problems, data.heldout_problems, 0)
    loaded = data_pipeline.load(data.source)
    train, heldout = loaded.problems, ()
    if data.heldout is None:
        train, heldout = hold_out(loaded.problems, data.heldout_share, data.heldout_problems)
    else:
        named = data_pipeline.load(data.heldout).problems
        train, heldout = without_those_of(loaded.problems, named), named
    return QuestionCounts(min(len(train), data.limit or len(train)), len(heldout), len(loaded.refused))


def check_sources(data: DataConfig) -> None:
    """Raises UserError, naming the command that creates it, if anything that is read is missing."""
    for source in sources_of(data):
        try:
            storage.check(source.place, source.command)
        except ValueError as error:
            raise UserError(f"{source.key}: {error}") from error
