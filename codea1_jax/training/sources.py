"""What a run reads its questions from: whether it is there, and the command that creates it where it is not."""

from dataclasses import dataclass

import data_pipeline
from codea1_jax.common.errors import UserError
from codea1_jax.config import METHODS, Config, DataConfig
from data_pipeline import Loaded, Problem, storage
from data_pipeline.reading import hold_out

GIVEN = "python"  # what a run whose questions were given in Python records as its `data.source`


@dataclass(frozen=True)
class Source:
    """Questions, or their golden tests, at a path or in a bucket.

    key: of the configuration. command: creates what is missing; None for files that only their owner can have.
    """

    key: str
    place: str
    command: str | None


def sources_of(data: DataConfig) -> tuple[Source, ...]:
    found = []
    if data.source not in ("micro", GIVEN):
        found.append(Source("data.source", data.source, storage.preparation(data.source)))
    if data.heldout is not None:
        found.append(Source("data.heldout", data.heldout, storage.preparation(data.heldout)))
    if data.golden_tests is not None:
        folder = data.golden_tests.rpartition("/")[0] or "."
        questions = "QUESTIONS" if data.source == "micro" else data.source
        command = f"codea1 eval suites --data {questions} --model RUN --out {folder}"
        found.append(Source("data.golden_tests", data.golden_tests, command))
    return tuple(found)


def count_questions(config: Config) -> tuple[int, int]:
    """The questions that a run trains on, and those that it holds out, including those that it refuses later: a
    reference that fails, or a prompt too long.

    Raises UserError for a source that cannot be read.
    """
    data = config.data
    named = None if data.heldout is None else load_problems(data.heldout, "data.heldout").problems
    if data.source == "micro":
        train, heldout = data.problems, data.heldout_problems if named is None else len(named)
    else:
        problems, held_out = split(load_problems(data.source).problems, data, named)
        if METHODS[config.method.name].needs_golden_tests and data.golden_tests is None:
            problems = tuple(problem for problem in problems if problem.golden_tests)
        train, heldout = len(problems), len(held_out)
    return min(train, data.limit or train), heldout


def load_problems(source: str, key: str = "data.source") -> Loaded:
    """The problems of a source, references not run. Raises UserError, naming the configuration's `key`."""
    try:
        return data_pipeline.load(source)
    except (ValueError, OSError) as error:
        raise UserError(f"{key}: {error}") from error


def split(
    problems: tuple[Problem, ...], data: DataConfig, named: tuple[Problem, ...] | None
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """A file's problems to train on, and those held out: the ones that `data.heldout` names, else a share."""
    if named is None:
        return hold_out(problems, data.heldout_share, data.heldout_problems)
    known = {problem.solution.strip() for problem in named}
    return tuple(problem for problem in problems if problem.solution.strip() not in known), named


def check_sources(data: DataConfig) -> str:
    """What is read, in words. Raises UserError, naming the command that creates it, if anything of it is missing."""
    for source in sources_of(data):
        try:
            storage.check(source.place, source.command)
        except ValueError as error:
            raise UserError(f"{source.key}: {error}") from error
    return data.source
