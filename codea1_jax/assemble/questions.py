"""The questions of a run: read, checked, and parted into those trained on and those held out."""

from __future__ import annotations

from dataclasses import dataclass

import data_pipeline
from codea1_jax.config import Config
from codea1_jax.game.prompts import Prompts
from codea1_jax.run.config import ConfigError
from data_pipeline import Loaded, Problem, Refusal, micro
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


def _fits(problem: Problem, prompts: Prompts, config: Config) -> bool:
    code = prompts.code(problem.question, problem.entry_point)
    tests = [prompts.test(problem.question, problem.entry_point, p) for p in (problem.solution, *problem.mutants)]
    rollout = config.rollout
    return len(code) <= rollout.code_prompt_tokens and max(map(len, tests)) <= rollout.test_prompt_tokens
