"""`codea1 eval tests --protocol official` and `paper`: one conversation per function, resumably, in one folder.

official: scored as the benchmark's own scripts do. paper: as the authors of Code-A1 do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from codea1_jax.evals.answers.requests import conversation_request
from codea1_jax.evals.commands.code import RESULTS_FILE, Progress
from codea1_jax.evals.commands.journal import Journal
from codea1_jax.evals.commands.tests import figures, read_result, sound_functions
from codea1_jax.evals.scores import official, paper
from codea1_jax.evals.scores.unleaked import ROUNDS, FunctionResult
from codea1_jax.game.players import Player
from data_pipeline import Problem
from sandbox import Judge

RESPONSES_FILE = "responses.jsonl"


def evaluate_official(
    problems: Sequence[Problem], player: Player, judge: Judge, journal: Journal, progress: Progress
) -> dict[str, Any]:
    """As `tests.evaluate_tests`, without coverage. Raises as it does."""
    sound, unsound = sound_functions(problems, judge)
    results = known_results(journal)
    responses = _responses(tuple(sound), player, journal, cut=False)
    todo = {problem: written for problem, written in responses.items() if problem.id not in results}
    _record(official.score(todo, sound, judge), results, len(sound), journal, progress)
    return figures([results[problem.id] for problem in sound], unsound)


def evaluate_paper(
    problems: Sequence[Problem], player: Player, judge: Judge, journal: Journal, progress: Progress
) -> dict[str, Any]:
    """The figures of the paper's second table, over all functions: whatever does not run passes no test.

    Raises SandboxError if the judge fails, UserError where cosmic-ray is missing, and what the player raises.
    """
    results = known_results(journal)
    responses = _responses(problems, player, journal, cut=True)
    mutated = paper.fixed_tenth(problems)
    todo = {problem: written for problem, written in responses.items() if problem.id not in results}
    _record(paper.score(todo, mutated, judge), results, len(problems), journal, progress)
    found = figures([results[problem.id] for problem in problems], {})
    measured = found["benchmarks"]["tests"]
    measured.pop("mut_at_5_all", None)  # the authors' mut@5 is of functions whose tests all pass, and of no others
    measured |= {"mutated": len(mutated), "entered": sum(results[problem.id].mutants > 0 for problem in mutated)}
    return found


def known_results(journal: Journal) -> dict[str, FunctionResult]:
    """The results of earlier sessions, by function."""
    return {line["task_id"]: read_result(line) for line in journal.lines(RESULTS_FILE)}


def _record(
    scored: Iterable[FunctionResult],
    results: dict[str, FunctionResult],
    total: int,
    journal: Journal,
    progress: Progress,
) -> None:
    """Adds results as they come, to the journal at once."""
    progress(len(results), total)
    for result in scored:
        journal.add(RESULTS_FILE, [asdict(result)])
        results[result.task_id] = result
        progress(len(results), total)


def _responses(problems: Sequence[Problem], player: Player, journal: Journal, *, cut: bool) -> dict[Problem, list[str]]:
    """The responses of all rounds; what earlier sessions have is not asked for again."""
    responses: dict[Problem, list[str]] = {problem: [] for problem in problems}
    by_id = {problem.id: problem for problem in problems}
    for line in journal.lines(RESPONSES_FILE):
        if problem := by_id.get(line["task_id"]):
            responses[problem].append(line["response"])
    for round_ in range(ROUNDS):
        asked = [problem for problem, earlier in responses.items() if len(earlier) == round_]
        requests = [conversation_request(problem, responses[problem], cut=cut) for problem in asked]
        for i, (response,) in player.test_functions(requests):
            journal.add(RESPONSES_FILE, [{"task_id": asked[i].id, "round": round_, "response": response.text}])
            responses[asked[i]].append(response.text)
    return responses
