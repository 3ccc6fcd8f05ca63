"""The questions of a run: read, checked, and parted into those trained on and those held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import data_pipeline
from codea1_jax.config import Config
from codea1_jax.game.prompts import Prompts
from codea1_jax.run.config import ConfigError
from data_pipeline import Loaded, Problem, Refusal, micro, problem_files
from data_pipeline.sources import split_of
from sandbox import Judge


@dataclass(frozen=True)
class Questions:
    """Questions to train on, held-out ones, and those refused with the reason."""

    train: tuple[Problem, ...]
    heldout: tuple[Problem, ...]
    refused: tuple[Refusal, ...]


def load_questions(config: Config, prompts: Prompts, pool: Judge) -> Questions:
    """Reads the source, refuses questions by reason, and parts training questions from held-out ones.

    A file's held-out questions are one in ten, by a hash of the solution; the micro world's have programs of their
    own and are the same for every seed, so that runs can be compared.

    Raises ConfigError for an unreadable source, or if too few questions are left to train on.
    """
    data = config.data
    refused: tuple[Refusal, ...] = ()
    if data.source == "micro":
        train = micro.problems("train", data.problems, config.run.seed)
        heldout = micro.problems("heldout", data.heldout_problems, 0)
    else:
        loaded = _load_file(data.source, pool)
        refused = loaded.refused
        train = tuple(p for p in loaded.problems if split_of(p) == "train")
        heldout = tuple(p for p in loaded.problems if split_of(p) == "heldout")[: data.heldout_problems]
    if data.golden_tests is not None:
        train, untested = _with_tests_of(data.golden_tests, train)
        refused += untested
    short = {p.id for p in (*train, *heldout) if _fits(p, prompts, config)}
    refused += tuple(Refusal(p.id, "its prompt is too long") for p in (*train, *heldout) if p.id not in short)
    train = tuple(p for p in train if p.id in short)
    if len(train) < config.train.questions:
        raise ConfigError(
            f"data.source: {data.source} leaves {len(train)} questions and refuses {len(refused)}; "
            f"a step needs train.questions={config.train.questions}"
        )
    return Questions(train, tuple(p for p in heldout if p.id in short), refused)


def _load_file(source: str, pool: Judge) -> Loaded:
    try:
        return data_pipeline.validate(data_pipeline.load(source, "all"), pool)
    except (ValueError, OSError) as error:
        raise ConfigError(f"data.source: {error}") from error


def _with_tests_of(path: str, problems: Sequence[Problem]) -> tuple[tuple[Problem, ...], tuple[Refusal, ...]]:
    """The problems with the golden tests that a file of problems has for them, and those it has none for."""
    try:
        given = {p.id: p.golden_tests for p in problem_files.read(path).problems if p.golden_tests}
    except (ValueError, OSError) as error:
        raise ConfigError(f"data.golden_tests: {error}") from error
    tested = tuple(replace(p, golden_tests=given[p.id]) for p in problems if p.id in given)
    missing = tuple(Refusal(p.id, f"{path} has no test for it") for p in problems if p.id not in given)
    return tested, missing


def _fits(problem: Problem, prompts: Prompts, config: Config) -> bool:
    code = prompts.code(problem.question, problem.entry_point)
    tests = [prompts.test(problem.question, problem.entry_point, p) for p in (problem.solution, *problem.mutants)]
    rollout = config.rollout
    return len(code) <= rollout.code_prompt_tokens and max(map(len, tests)) <= rollout.test_prompt_tokens
