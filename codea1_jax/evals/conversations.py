"""UnLeakedTestBench as scored by scripts around pytest and cosmic-ray: the benchmark's own, and those of Code-A1.

A function's tests run together, below the scripts' imports, with `ON_FUNCTION` seconds for all: over that, none has
passed. pass@5 is the number of tests that pass, of five per function of the data. A function enters mut@5 if all its
tests pass, in `LONGEST` seconds. A mutant is killed unless pytest succeeds on it, with all tests, in `LONGEST` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from codea1_jax.evals import official, paper
from codea1_jax.evals.journal import RESULTS_FILE, Journal
from codea1_jax.evals.mutants import Mutant, make_mutants
from codea1_jax.evals.pytest_jobs import PytestRun, WrittenTests, pytest_job, read_run
from codea1_jax.evals.requests import conversation_request
from codea1_jax.evals.rounds import CORRECT, NONE, ROUNDS, WRONG, FunctionResult, ahead, figures
from codea1_jax.game.players import Player
from data_pipeline import Problem
from sandbox import Execution, Judge

RESPONSES_FILE = "responses.jsonl"

LONGEST = 10.0  # seconds that the tests may take together on a mutant
ON_FUNCTION = 30.0  # and on the function itself
AHEAD = 2_048  # mutants that the judge is given early, so that many cores do not wait for one that never ends
FUNCTIONS_AHEAD = 128  # the same of functions: their results are kept as they come

Advance = Callable[[int, int, str], None]  # shows how many are done, of how many, of what


@dataclass(frozen=True)
class Protocol:
    """How a conversation's responses are read, and whether one that grows too long is cut as the authors' are.

    read: (responses, the function's name) -> its tests.
    """

    read: Callable[[Sequence[str], str], WrittenTests]
    cut: bool


OFFICIAL = Protocol(official.read_tests, cut=False)
PAPER = Protocol(paper.read_tests, cut=True)


def score(
    written: Mapping[Problem, WrittenTests], mutated: Collection[Problem], judge: Judge, advance: Advance
) -> Iterator[FunctionResult]:
    """Judges every function's tests; first come the functions without mutants, then those of `mutated` that enter.

    Raises SandboxError if the judge fails, UserError where cosmic-ray is missing.
    """
    entered: dict[Problem, FunctionResult] = {}
    mutated = set(mutated)
    for done, (problem, run) in enumerate(_runs(written, judge), start=1):
        advance(done, len(written), "functions")
        result = _result(problem, written[problem], run)
        if problem in mutated and _enters(written[problem], run):
            entered[problem] = result
        else:
            yield result
    solutions = [problem.solution for problem in entered]
    made = make_mutants(solutions, progress=lambda done, total: advance(done, total, "functions mutated"))
    mutants = {problem: () if isinstance(each, str) else each for problem, each in zip(entered, made, strict=True)}
    for problem, killed in _kills(mutants, written, judge, advance):
        yield replace(entered[problem], mutants=len(mutants[problem]), killed=killed)


def _runs(written: Mapping[Problem, WrittenTests], judge: Judge) -> Iterator[tuple[Problem, PytestRun]]:
    """Every function's tests on the function, in order."""
    submitted = (
        (problem, tests, judge.submit(pytest_job(_program(problem, problem.solution), tests, ON_FUNCTION)))
        for problem, tests in written.items()
    )
    for problem, tests, future in ahead(submitted, FUNCTIONS_AHEAD):
        yield problem, read_run(future.result(), tests)


def _kills(
    mutants: Mapping[Problem, Sequence[Mutant]],
    written: Mapping[Problem, WrittenTests],
    judge: Judge,
    advance: Advance,
) -> Iterator[tuple[Problem, int]]:
    """How many of its mutants each function's tests kill, in order; those of several functions run side by side."""
    done, total = 0, sum(map(len, mutants.values()))

    def submit(problem: Problem, mutant: Mutant) -> Future[Execution]:
        return judge.submit(pytest_job(_program(problem, mutant.program), written[problem], LONGEST, "-x"))

    submitted = ((problem, [submit(problem, mutant) for mutant in each]) for problem, each in mutants.items())
    for problem, futures in ahead(submitted, AHEAD, lambda item: len(item[1])):
        killed = 0
        for future in futures:
            killed += not read_run(future.result(), written[problem]).succeeded
            done += 1
            advance(done, total, "mutants")
        yield problem, killed


def _program(problem: Problem, solution: str) -> str:
    """The scripts have nothing above a function of the benchmark but their own imports."""
    return solution if problem.source == "ult" else problem.preamble + solution


def _enters(tests: WrittenTests, run: PytestRun) -> bool:
    return all(tests.texts) and run.succeeded and run.passed > 0 and run.seconds <= LONGEST


def _result(problem: Problem, tests: WrittenTests, run: PytestRun) -> FunctionResult:
    """One outcome for each response, then one for every other test that has passed."""
    own = iter(run.own)
    outcomes = [(CORRECT if next(own) else WRONG) if text else NONE for text in tests.texts]
    outcomes += [CORRECT] * (run.passed - sum(run.own)) if tests.every_test_counts else []
    return FunctionResult(problem.id, tests.texts, tuple(outcomes), 0, 0)


def evaluate_conversations(
    problems: Sequence[Problem],
    mutated: Sequence[Problem],
    protocol: Protocol,
    player: Player,
    judge: Judge,
    journal: Journal,
    advance: Advance,
) -> dict[str, Any]:
    """`codea1 eval tests --protocol official` and `paper`: figures over all functions.

    Whatever does not run passes no test. Those of `mutated` may enter mut@5.

    Raises SandboxError if the judge fails, UserError where cosmic-ray is missing, and what the player raises.
    """

    def ask(asked: Sequence[Problem], texts: Mapping[Problem, Sequence[str]]) -> Iterator[tuple[Problem, str]]:
        earlier = [[paper.spoken(text) for text in texts[problem]] for problem in asked]
        requests = [conversation_request(p, each, cut=protocol.cut) for p, each in zip(asked, earlier, strict=True)]
        for i, (response,) in player.test_functions(requests):
            yield asked[i], response.text

    responses = journal.rounds(RESPONSES_FILE, "response", problems, ROUNDS, ask)

    def judged(done: Collection[str]) -> Iterator[FunctionResult]:
        todo = {problem: texts for problem, texts in responses.items() if problem.id not in done}
        return score({p: protocol.read(texts, p.entry_point) for p, texts in todo.items()}, mutated, judge, advance)

    results = journal.completed(RESULTS_FILE, FunctionResult, judged)
    scored = [results[problem.id] for problem in problems]
    summary = figures(scored, {})
    measured = summary["benchmarks"]["tests"]
    measured.pop("mut_at_5_all", None)  # the scripts' mut@5 is of functions whose tests all pass, and of no others
    measured |= {"mutated": len(mutated), "entered": sum(result.mutants > 0 for result in scored)}
    return summary
