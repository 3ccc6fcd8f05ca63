"""The questions of a run: read, checked, and parted into those trained on and those held out."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import data_pipeline
from codea1_jax.config import METHODS, Config
from codea1_jax.errors import UserError
from codea1_jax.files import write_atomically
from codea1_jax.game.players import program_prompt
from codea1_jax.game.prompts import Prompts
from codea1_jax.hosts.gather import gathered, is_mine
from codea1_jax.words import counted
from data_pipeline import Loaded, Problem, Refusal, micro
from data_pipeline.heldout import hold_out
from data_pipeline.hub import local_path
from data_pipeline.validate import failures
from sandbox import Judge


@dataclass(frozen=True)
class Questions:
    """Questions to train on, held-out ones, those of benchmarks, and those refused with the reason."""

    train: tuple[Problem, ...]
    heldout: tuple[Problem, ...]
    benchmark: tuple[Problem, ...]
    refused: tuple[Refusal, ...]


def load_questions(config: Config, prompts: Prompts, judge: Judge) -> Questions:
    """Reads the source, refuses questions by reason, and parts training questions from held-out ones.

    A file's held-out questions are chosen by a hash of the solution; the micro world's have their own programs and
    are the same for every seed, so that runs can be compared.

    Raises UserError for an unreadable source, or if too few questions are left to train on; then the reasons why
    they were refused are in a file next to the run's directory.
    """
    data = config.data
    scored = config.eval.every > 0 and "code" in METHODS[config.method.name].roles
    benchmark = _load_benchmarks(config) if scored else Loaded(())  # before anything that takes time
    refused: tuple[Refusal, ...] = ()
    if data.source == "micro":
        train = micro.problems("train", data.problems, config.run.seed)
        heldout = micro.problems("heldout", data.heldout_problems, 0)
    else:
        loaded = _load_file(data.source, judge)
        refused = loaded.refused
        train, heldout = hold_out(loaded.problems, data.heldout_share, data.heldout_problems)
    if data.golden_tests is not None:
        train, untested = _with_tests_of(data.golden_tests, train)
        refused += untested
    if METHODS[config.method.name].needs_golden_tests:
        reason = f"it has no golden tests, from which {config.method.name} learns"
        refused += tuple(Refusal(p.id, reason) for p in train if not p.golden_tests)
        train = tuple(p for p in train if p.golden_tests)
    short = {p.id for p in (*train, *heldout) if _fits(p, prompts, config)}
    refused += tuple(Refusal(p.id, "its prompt is too long") for p in (*train, *heldout) if p.id not in short)
    train = _limited(tuple(p for p in train if p.id in short), data.limit, config.run.seed)
    if len(train) < config.train.questions:
        raise UserError(
            f"data.source: {data.source} leaves {counted(len(train), 'question')} and refuses {len(refused)}; "
            f"a step needs train.questions={config.train.questions}" + _where_reasons_are(refused, config)
        )
    fitting = tuple(p for p in benchmark.problems if _code_fits(p, prompts, config))
    refused += benchmark.refused
    refused += tuple(Refusal(p.id, "its prompt is too long") for p in benchmark.problems if p not in fitting)
    return Questions(train, tuple(p for p in heldout if p.id in short), fitting, refused)


def _limited(train: tuple[Problem, ...], limit: int | None, seed: int) -> tuple[Problem, ...]:
    """At most that many of the questions, in their order; the seed chooses."""
    if limit is None or limit >= len(train):
        return train
    chosen = sorted(random.Random(f"limit {seed}").sample(range(len(train)), limit))
    return tuple(train[i] for i in chosen)


def _where_reasons_are(refused: Sequence[Refusal], config: Config) -> str:
    """Where the reasons are, once they are there."""
    if not refused:
        return ""
    path = Path(f"{config.run.directory}.refused.jsonl")
    write_atomically(path, "".join(json.dumps(vars(refusal)) + "\n" for refusal in refused))
    return f"; why each was refused is in {path}"


def _load_benchmarks(config: Config) -> Loaded:
    """The problems of all benchmarks together."""
    try:
        loaded = [data_pipeline.load(str(local_path(source)), "all") for source in config.eval.datasets]
    except (ValueError, OSError) as error:
        raise UserError(f"eval.datasets: {error}") from error
    problems = tuple(problem for each in loaded for problem in each.problems)
    return Loaded(problems, tuple(refusal for each in loaded for refusal in each.refused))


def _load_file(source: str, judge: Judge) -> Loaded:
    """A file's problems; refused are also those whose solution fails their own tests, each judged by one host."""
    try:
        loaded = data_pipeline.load(source, "all")
    except (ValueError, OSError) as error:
        raise UserError(f"data.source: {error}") from error
    mine = {i: problem for i, problem in enumerate(loaded.problems) if is_mine(i)}
    reasons = gathered(lambda: dict(zip(mine, failures(tuple(mine.values()), judge), strict=True)))
    return loaded.refusing({loaded.problems[i].id: reason for i, reason in reasons.items() if reason is not None})


def _with_tests_of(path: str, problems: Sequence[Problem]) -> tuple[tuple[Problem, ...], tuple[Refusal, ...]]:
    """The problems with the golden tests that a file of problems has for them, and those it has none for."""
    try:
        given = {p.id: p.golden_tests for p in data_pipeline.load(path, "all").problems if p.golden_tests}
    except (ValueError, OSError) as error:
        raise UserError(f"data.golden_tests: {error}") from error
    tested = tuple(replace(p, golden_tests=given[p.id]) for p in problems if p.id in given)
    missing = tuple(Refusal(p.id, f"{path} has no test for it") for p in problems if p.id not in given)
    return tested, missing


def _fits(problem: Problem, prompts: Prompts, config: Config) -> bool:
    tests = [prompts.test(problem.described, problem.entry_point, p) for p in (problem.solution, *problem.mutants)]
    return _code_fits(problem, prompts, config) and max(map(len, tests)) <= config.rollout.test_prompt_tokens


def _code_fits(problem: Problem, prompts: Prompts, config: Config) -> bool:
    return len(program_prompt(prompts, problem)) <= config.rollout.code_prompt_tokens
