"""`codea1 eval tests --protocol official`: the benchmark's own conversation and scoring, resumably, in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from codea1_jax.evals.answers.requests import conversation_request
from codea1_jax.evals.commands.code import RESULTS_FILE, Progress
from codea1_jax.evals.commands.journal import Journal
from codea1_jax.evals.commands.tests import figures, read_result, sound_functions
from codea1_jax.evals.scores.official import score
from codea1_jax.evals.scores.unleaked import ROUNDS
from codea1_jax.game.players import Player
from data_pipeline import Problem
from sandbox import Judge

RESPONSES_FILE = "responses.jsonl"


def evaluate_official(
    problems: Sequence[Problem], player: Player, judge: Judge, journal: Journal, progress: Progress
) -> dict[str, Any]:
    """As `tests.evaluate_tests`, without coverage. Raises as it does."""
    sound, unsound = sound_functions(problems, judge)
    responses = _responses(tuple(sound), player, journal)
    results = {line["task_id"]: read_result(line) for line in journal.lines(RESULTS_FILE)}
    progress(len(results), len(sound))
    for result in score({p: written for p, written in responses.items() if p.id not in results}, sound, judge):
        journal.add(RESULTS_FILE, [asdict(result)])
        results[result.task_id] = result
        progress(len(results), len(sound))
    return figures([results[problem.id] for problem in sound], unsound)


def _responses(problems: Sequence[Problem], player: Player, journal: Journal) -> dict[Problem, list[str]]:
    """The responses of all rounds; what earlier sessions have is not asked for again."""
    responses: dict[Problem, list[str]] = {problem: [] for problem in problems}
    by_id = {problem.id: problem for problem in problems}
    for line in journal.lines(RESPONSES_FILE):
        if problem := by_id.get(line["task_id"]):
            responses[problem].append(line["response"])
    for round_ in range(ROUNDS):
        asked = [problem for problem, earlier in responses.items() if len(earlier) == round_]
        requests = [conversation_request(problem, responses[problem]) for problem in asked]
        for i, (response,) in player.test_functions(requests):
            journal.add(RESPONSES_FILE, [{"task_id": asked[i].id, "round": round_, "response": response.text}])
            responses[asked[i]].append(response.text)
    return responses
