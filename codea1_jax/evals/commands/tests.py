"""`codea1 eval tests`: five rounds and their scoring, resumably, in one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from codea1_jax.evals.commands.code import RESULTS_FILE, Progress
from codea1_jax.evals.commands.journal import Journal
from codea1_jax.evals.scores.mutants import make_mutants
from codea1_jax.evals.scores.mutate import Mutant
from codea1_jax.evals.scores.unleaked import ROUNDS, FunctionResult, metrics_of, play_round, score, spelled
from codea1_jax.game.parsing import suite_in
from codea1_jax.game.players import Player
from data_pipeline import Problem, unleaked
from data_pipeline.validate import failures
from sandbox import Job, Judge, SuiteTest

TESTS_FILE = "tests.jsonl"


def evaluate_tests(
    problems: Sequence[Problem], player: Player, judge: Judge, journal: Journal, progress: Progress
) -> dict[str, Any]:
    """Figures over functions, and which cannot be judged: those that do not load, fail their tests or do not mutate.

    Raises SandboxError if the judge fails, UserError where cosmic-ray or coverage.py is missing, and what the
    player raises.
    """
    sound, unsound = sound_functions(problems, judge)
    written = _written(tuple(sound), player, journal)
    results = {line["task_id"]: read_result(line) for line in journal.lines(RESULTS_FILE)}
    progress(len(results), len(sound))
    todo = {problem: tests for problem, tests in written.items() if problem.id not in results}
    for result in score(todo, sound, judge):
        journal.add(RESULTS_FILE, [asdict(result)])
        results[result.task_id] = result
        progress(len(results), len(sound))
    return figures([results[problem.id] for problem in sound], unsound)


def figures(results: Sequence[FunctionResult], unsound: Mapping[str, str]) -> dict[str, Any]:
    """What a command reports of the results and of the functions that could not be judged."""
    found = {name: asdict(value) for name, value in metrics_of(results, len(unsound)).items()}
    counts = {"problems": len(results) + len(unsound), "sound": len(results)}
    return {"benchmarks": {"tests": counts | found}, "unsound": unsound}


def sound_functions(
    problems: Sequence[Problem], judge: Judge
) -> tuple[dict[Problem, tuple[Mutant, ...]], dict[str, str]]:
    """The mutants of every function that can be judged, and by id why the others cannot."""
    runs = judge.execute([Job(problem.preamble + problem.solution) for problem in problems])
    unsound = {
        problem.id: f"does not execute: {run.loaded.status} {run.loaded.detail}".strip()
        for problem, run in zip(problems, runs, strict=True)
        if not run.valid
    }
    # UnLeakedTestBench's own tests are often wrong, its functions are right by definition.
    tested = [p for p in problems if p.source != unleaked.DATASET.name and p.golden_tests and p.id not in unsound]
    reasons = zip(tested, failures(tested, judge), strict=True)
    unsound |= {problem.id: reason for problem, reason in reasons if reason is not None}
    sound = [problem for problem in problems if problem.id not in unsound]
    made = dict(zip(sound, make_mutants([problem.solution for problem in sound]), strict=True))
    unsound |= {problem.id: mutants for problem, mutants in made.items() if isinstance(mutants, str)}
    return {problem: mutants for problem, mutants in made.items() if not isinstance(mutants, str)}, unsound


def _written(problems: Sequence[Problem], player: Player, journal: Journal) -> dict[Problem, list[SuiteTest | None]]:
    """The tests of all rounds; what earlier sessions wrote is not asked for again."""
    written: dict[Problem, list[SuiteTest | None]] = {problem: [] for problem in problems}
    by_id = {problem.id: problem for problem in problems}
    for line in journal.lines(TESTS_FILE):
        if problem := by_id.get(line["task_id"]):
            written[problem].append(_test(line["test"], problem.entry_point))
    for round_ in range(ROUNDS):
        for problem, test in play_round(player, written, round_):
            journal.add(TESTS_FILE, [{"task_id": problem.id, "round": round_, "test": spelled(test) if test else ""}])
            written[problem].append(test)
    return written


def _test(line: str, entry_point: str) -> SuiteTest | None:
    return next(iter(suite_in(line, entry_point).tests), None)


def read_result(line: Mapping[str, Any]) -> FunctionResult:
    """A line of the results file."""
    return FunctionResult(**{**line, "tests": tuple(line["tests"]), "outcomes": tuple(line["outcomes"])})
