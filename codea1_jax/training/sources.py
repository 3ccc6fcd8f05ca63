"""What a run reads its questions from: whether it is there, and the command that creates it where it is not."""

from __future__ import annotations

from typing import NamedTuple

import data_pipeline
from codea1_jax.common.errors import UserError
from codea1_jax.config import METHODS, Config, DataConfig
from data_pipeline import Loaded, Problem, storage
from data_pipeline.reading import hold_out

GIVEN = "python"  # what a run whose questions were given in Python records as its `data.source`


class QuestionCounts(NamedTuple):
    train: int
    heldout: int


def count_questions(config: Config) -> QuestionCounts:
    """The questions of a run, including those that it refuses later: a reference that fails, or a prompt too long.

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
    return QuestionCounts(min(train, data.limit or train), heldout)


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
    file = None if data.source in ("micro", GIVEN) else data.source
    for key, place in (("source", file), ("heldout", data.heldout), ("golden_tests", data.golden_tests)):
        if place is None:
            continue
        command = _golden_tests_command(place, file) if key == "golden_tests" else storage.preparation(place)
        try:
            storage.check(place, command)
        except ValueError as error:
            raise UserError(f"data.{key}: {error}") from error
    return data.source


def _golden_tests_command(place: str, questions: str | None) -> str:
    folder = place.rpartition("/")[0] or "."
    return f"codea1 eval suites --data {questions or 'QUESTIONS'} --model RUN --out {folder}"
