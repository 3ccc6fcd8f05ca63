"""`codea1 eval tests --protocol official` and `paper`: one conversation per function, resumably, in one folder.

official: scored as the benchmark's own scripts do. paper: as the authors of Code-A1 do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from codea1_jax.evals.answers.requests import conversation_request
from codea1_jax.evals.commands.code import RESULTS_FILE
from codea1_jax.evals.commands.journal import Journal
from codea1_jax.evals.commands.tests import figures, read_result
from codea1_jax.evals.scores import official, paper
from codea1_jax.evals.scores.conversations import Advance, WrittenTests, score
from codea1_jax.evals.scores.paper_tests import spoken
from codea1_jax.evals.scores.unleaked import ROUNDS, FunctionResult
from codea1_jax.game.players import Player
from data_pipeline import Problem
from sandbox import Judge

RESPONSES_FILE = "responses.jsonl"


@dataclass(frozen=True)
class Protocol:
    """How a conversation's responses are read, and whether one that grows too long is cut as the authors' are."""

    read: Callable[[Sequence[str], str], WrittenTests]
    cut: bool


OFFICIAL = Protocol(official.read_tests, cut=False)
PAPER = Protocol(paper.read_tests, cut=True)


def evaluate_conversations(
    problems: Sequence[Problem],
    mutated: Sequence[Problem],
    protocol: Protocol,
    player: Player,
    judge: Judge,
    journal: Journal,
    advance: Advance,
) -> dict[str, Any]:
    """Figures over all functions: whatever does not run passes no test. Those of `mutated` may enter mut@5.

    Raises SandboxError if the judge fails, UserError where cosmic-ray is missing, and what the player raises.
    """
    results = {line["task_id"]: read_result(line) for line in journal.lines(RESULTS_FILE)}
    responses = _responses(problems, player, journal, cut=protocol.cut)
    todo = {
        problem: protocol.read(written, problem.entry_point)
        for problem, written in responses.items()
        if problem.id not in results
    }
    for result in score(todo, mutated, judge, advance):
        journal.add(RESULTS_FILE, [asdict(result)])
        results[result.task_id] = result
    return _figures([results[problem.id] for problem in problems], len(mutated))


def _figures(results: Sequence[FunctionResult], mutated: int) -> dict[str, Any]:
    found = figures(results, {})
    measured = found["benchmarks"]["tests"]
    measured.pop("mut_at_5_all", None)  # the scripts' mut@5 is of functions whose tests all pass, and of no others
    measured |= {"mutated": mutated, "entered": sum(result.mutants > 0 for result in results)}
    return found


def _responses(problems: Sequence[Problem], player: Player, journal: Journal, *, cut: bool) -> dict[Problem, list[str]]:
    """The responses of all rounds; what earlier sessions have is not asked for again."""
    responses: dict[Problem, list[str]] = {problem: [] for problem in problems}
    by_id = {problem.id: problem for problem in problems}
    for line in journal.lines(RESPONSES_FILE):
        if problem := by_id.get(line["task_id"]):
            responses[problem].append(line["response"])
    for round_ in range(ROUNDS):
        asked = [problem for problem, earlier in responses.items() if len(earlier) == round_]
        requests = [conversation_request(p, [spoken(each) for each in responses[p]], cut=cut) for p in asked]
        for i, (response,) in player.test_functions(requests):
            journal.add(RESPONSES_FILE, [{"task_id": asked[i].id, "round": round_, "response": response.text}])
            responses[asked[i]].append(response.text)
    return responses
