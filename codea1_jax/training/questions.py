import json
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import data_pipeline
from codea1_jax.common.errors import UserError
from codea1_jax.common.files import write_atomically
from codea1_jax.common.words import counted
from codea1_jax.config import METHODS, Config, Role
from codea1_jax.game.prompts import Prompts
from codea1_jax.runtime.gather import gathered, is_mine
from codea1_jax.training.mutants import with_mutants
from codea1_jax.training.sources import load_problems, split
from data_pipeline import Loaded, Problem, Refusal, micro
from data_pipeline.hub import local_path
from data_pipeline.validate import failures
from sandbox import Judge

logger = logging.getLogger(__name__)

HELDOUT_MUTANTS = 8  # of a held-out question's solution, where it brings none


@dataclass(frozen=True)
class GivenQuestions:
    """Questions that are given in place of those that the configuration names; None: not given."""

    train: Sequence[Problem] | None = None
    heldout: Sequence[Problem] | None = None


NONE_GIVEN = GivenQuestions()


@dataclass(frozen=True)
class Questions:
    """Questions to train on, held-out ones, those of benchmarks, and those refused with the reason.

    dropped: tests that were left out of questions, by the question's id, each with the reason.
    """

    train: tuple[Problem, ...]
    heldout: tuple[Problem, ...]
    benchmark: tuple[Problem, ...]
    refused: tuple[Refusal, ...]
    dropped: tuple[Refusal, ...] = ()


def load_questions(
    config: Config, prompts: Mapping[Role, Prompts], judge: Judge, given: GivenQuestions = NONE_GIVEN
) -> Questions:
    """Reads the source, refuses questions by reason, and parts training questions from held-out ones.

    Held-out questions are those of `data.heldout`. Without it, a file's are chosen by a hash of the solution; the micro
    world's have their own programs and are the same for every seed, so that runs can be compared.

    Raises UserError for an unreadable source, or if too few questions are left to train on; then the reasons why
    they were refused are in a file next to the run's directory.
    """
    data = config.data
    scored = config.eval.every > 0 and "code" in METHODS[config.method.name].roles
    benchmark = load_benchmarks(config) if scored else Loaded(())  # before anything that takes time
    train, heldout, refused, dropped = _read(config, judge, given)
    if config.prompts.source == "dataset":
        _check_prompts(data.source, (*train, *heldout))
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
            f"data.source: {data.source} leaves {counted(len(train), 'question')}, holds {len(heldout)} out and "
            f"refuses {len(refused)}; a step needs train.questions={config.train.questions}: lower it, or add questions"
            + _where_reasons_are(refused, config)
        )
    heldout = tuple(p for p in heldout if p.id in short)
    if config.rewards.test_value != "paper" and config.rewards.mutants:
        train = with_mutants(train, judge, config.rewards.mutants, config.run.seed)
        if without := sum(not problem.mutants for problem in train):
            logger.warning(
                "%d of %d questions have no mutants: their own wrong programs take their place", without, len(train)
            )
    if config.eval.every and "test" in METHODS[config.method.name].roles:
        asked, longest = prompts["test"], config.rollout.test_prompt_tokens
        heldout = tuple(  # with mutants that can be shown, the same in every run: how well tests find bugs
            replace(p, mutants=tuple(each for each in p.mutants if len(asked.test(p, each)) <= longest))
            for p in with_mutants(heldout, judge, HELDOUT_MUTANTS, 0)
        )
    fitting = tuple(p for p in benchmark.problems if _code_fits(p, prompts, config))
    refused += benchmark.refused
    refused += tuple(Refusal(p.id, "its prompt is too long") for p in benchmark.problems if p not in fitting)
    return Questions(train, heldout, fitting, refused, dropped)


def _read(
    config: Config, judge: Judge, given: GivenQuestions
) -> tuple[tuple[Problem, ...], tuple[Problem, ...], tuple[Refusal, ...], tuple[Refusal, ...]]:
    data = config.data
    named = _named_heldout(config, judge, given)
    if given.train is None and data.source == "micro":
        form = micro.FORMS[data.task]
        train = micro.problems("train", data.problems, config.run.seed, form)
        if named is None:
            return train, micro.problems("heldout", data.heldout_problems, 0, form), (), ()
        return train, named.problems, named.refused, named.dropped
    loaded = load_problems(data.source) if given.train is None else Loaded(tuple(given.train))
    loaded = drop_unsound(loaded, judge)
    train, heldout = split(loaded.problems, data, None if named is None else named.problems)
    if named is None:
        return train, heldout, loaded.refused, loaded.dropped
    return train, heldout, loaded.refused + named.refused, loaded.dropped + named.dropped


def _named_heldout(config: Config, judge: Judge, given: GivenQuestions) -> Loaded | None:
    if given.heldout is not None:
        return drop_unsound(Loaded(tuple(given.heldout)), judge)
    return (
        None if config.data.heldout is None else drop_unsound(load_problems(config.data.heldout, "data.heldout"), judge)
    )


def _limited(train: tuple[Problem, ...], limit: int | None, seed: int) -> tuple[Problem, ...]:
    if limit is None or limit >= len(train):
        return train
    chosen = sorted(random.Random(f"limit {seed}").sample(range(len(train)), limit))
    return tuple(train[i] for i in chosen)


def _where_reasons_are(refused: Sequence[Refusal], config: Config) -> str:
    if not refused:
        return ""
    path = Path(f"{config.run.directory}.refused.jsonl")
    write_atomically(path, "".join(json.dumps(vars(refusal)) + "\n" for refusal in refused))
    return f"; why each was refused is in {path}"


def load_benchmarks(config: Config) -> Loaded:
    try:
        loaded = [data_pipeline.load(str(local_path(source))) for source in config.eval.datasets]
    except (ValueError, OSError) as error:
        raise UserError(f"eval.datasets: {error}") from error
    problems = tuple(problem for each in loaded for problem in each.problems)
    return Loaded(problems, tuple(refusal for each in loaded for refusal in each.refused))


def drop_unsound(loaded: Loaded, judge: Judge) -> Loaded:
    """Refuses also the problems without a solution that passes their own tests; each is judged by one host."""
    mine = {i: problem for i, problem in enumerate(loaded.problems) if is_mine(i)}
    reasons = gathered(lambda: dict(zip(mine, failures(tuple(mine.values()), judge), strict=True)))
    return loaded.refusing({loaded.problems[i].id: reason for i, reason in reasons.items() if reason is not None})


def _with_tests_of(path: str, problems: Sequence[Problem]) -> tuple[tuple[Problem, ...], tuple[Refusal, ...]]:
    """The problems with the golden tests that a file of problems has for them, and those it has none for."""
    given = {p.id: p.golden_tests for p in load_problems(path, "data.golden_tests").problems if p.golden_tests}
    tested = tuple(replace(p, golden_tests=given[p.id]) for p in problems if p.id in given)
    missing = tuple(Refusal(p.id, f"{path} has no test for it") for p in problems if p.id not in given)
    return tested, missing


def _check_prompts(source: str, problems: Sequence[Problem]) -> None:
    if without := [problem.id for problem in problems if not problem.prompt]:
        raise UserError(
            f"prompts.source=dataset: {len(without)} of {counted(len(problems), 'question')} of {source}, such as "
            f"{without[0]}, have no prompt of their own (a field `prompt`, a list of {{role, content}}); prepare rows "
            "that have it, or set prompts.source=built_in"
        )


def _fits(problem: Problem, prompts: Mapping[Role, Prompts], config: Config) -> bool:
    longest = max(len(prompts["test"].test(problem, shown)) for shown in (problem.solution, *problem.mutants))
    return _code_fits(problem, prompts, config) and longest <= config.rollout.test_prompt_tokens


def _code_fits(problem: Problem, prompts: Mapping[Role, Prompts], config: Config) -> bool:
    return len(prompts["code"].code(problem)) <= config.rollout.code_prompt_tokens
