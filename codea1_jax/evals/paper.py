"""UnLeakedTestBench as the authors of Code-A1 score it: `codea1 eval tests --protocol paper`.

In one growing conversation the Test LLM writes five tests of each function (`paper_reading` has what a test is). They
run together as one module, below the scripts' imports, with `ON_FUNCTION` seconds for all: over that, none has passed.
pass@5 is the number of tests that pass, of five per function of the data. A function enters mut@5 if all its tests
pass, in `LONGEST` seconds. A mutant is killed unless pytest succeeds on it, with all tests, in `LONGEST` seconds.
The functions whose mutants count are a fixed tenth of the benchmark. Mul is pass@5 · mut@5 / 100.
"""

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from codea1_jax.config.run import ROUNDS
from codea1_jax.evals.journal import RESULTS_FILE, Journal
from codea1_jax.evals.metrics import Estimate, estimate
from codea1_jax.evals.mutants import Mutant, make_mutants
from codea1_jax.evals.paper_reading import read_tests, spoken
from codea1_jax.evals.pytest_jobs import PytestRun, pytest_job, read_run
from codea1_jax.evals.requests import conversation_request
from codea1_jax.evals.samples import RESPONSES_FILE
from codea1_jax.game.players import Player
from data_pipeline import Problem
from sandbox import Execution, Judge

T = TypeVar("T")

FUNCTIONS = 3_909  # of the whole benchmark

LONGEST = 10.0  # seconds that the tests may take together on a mutant
ON_FUNCTION = 30.0  # and on the function itself
AHEAD = 2_048  # mutants that the judge is given early, so that many cores do not wait for one that never ends
FUNCTIONS_AHEAD = 128  # the same of functions: their results are kept as they come

Advance = Callable[[int, int, str], None]  # shows how many are done, of how many, of what


@dataclass(frozen=True)
class FunctionResult:
    """A function's five tests, how many tests passed, and how many of its mutants they killed.

    passed: as pytest counts, so that it may exceed five. mutants: 0 unless the function enters mut@5.
    """

    task_id: str
    tests: tuple[str, ...]
    passed: int
    mutants: int = 0
    killed: int = 0


def mutated_functions(problems: Sequence[Problem]) -> Sequence[Problem]:
    """The functions whose mutants count: the authors' fixed tenth of the whole benchmark, and all of any other data."""
    if len(problems) != FUNCTIONS:
        return problems
    places = json.loads(Path(__file__).with_name("fixed_tenth.json").read_text())
    return [problems[place] for place in places]


def score(
    written: Mapping[Problem, Sequence[str]], mutated: Collection[Problem], judge: Judge, advance: Advance
) -> Iterator[FunctionResult]:
    """Judges every function's tests; first come the functions without mutants, then those of `mutated` that enter.

    Raises SandboxError if the judge fails, UserError where cosmic-ray is missing.
    """
    entered: dict[Problem, FunctionResult] = {}
    mutated = set(mutated)
    for done, (problem, run) in enumerate(_runs(written, judge), start=1):
        advance(done, len(written), "functions")
        result = FunctionResult(problem.id, tuple(written[problem]), run.passed)
        if problem in mutated and run.succeeded and run.passed > 0 and run.seconds <= LONGEST:
            entered[problem] = result
        else:
            yield result
    solutions = [problem.solution for problem in entered]
    made = make_mutants(solutions, progress=lambda done, total: advance(done, total, "functions mutated"))
    mutants = {problem: () if isinstance(each, str) else each for problem, each in zip(entered, made, strict=True)}
    for problem, killed in _kills(mutants, written, judge, advance):
        yield replace(entered[problem], mutants=len(mutants[problem]), killed=killed)


def _runs(written: Mapping[Problem, Sequence[str]], judge: Judge) -> Iterator[tuple[Problem, PytestRun]]:
    submitted = (
        (problem, judge.submit(pytest_job(_program(problem, problem.solution), "\n\n".join(tests), ON_FUNCTION)))
        for problem, tests in written.items()
    )
    for problem, future in _ahead(submitted, FUNCTIONS_AHEAD):
        yield problem, read_run(future.result())


def _kills(
    mutants: Mapping[Problem, Sequence[Mutant]],
    written: Mapping[Problem, Sequence[str]],
    judge: Judge,
    advance: Advance,
) -> Iterator[tuple[Problem, int]]:
    done, total = 0, sum(map(len, mutants.values()))

    def submit(problem: Problem, mutant: Mutant) -> Future[Execution]:
        return judge.submit(pytest_job(_program(problem, mutant.program), "\n\n".join(written[problem]), LONGEST, "-x"))

    submitted = ((problem, [submit(problem, mutant) for mutant in each]) for problem, each in mutants.items())
    for problem, futures in _ahead(submitted, AHEAD, lambda item: len(item[1])):
        killed = 0
        for future in futures:
            killed += not read_run(future.result()).succeeded
            done += 1
            advance(done, total, "mutants")
        yield problem, killed


def _ahead(items: Iterable[T], most: int, size: Callable[[T], int] = lambda _: 1) -> Iterator[T]:
    """The items, taken early, to keep the judge busy: up to `most` of what `size` counts wait here, or one item."""
    waiting, held = deque[T](), 0
    for item in items:
        waiting.append(item)
        held += size(item)
        while held > most and len(waiting) > 1:
            held -= size(waiting[0])
            yield waiting.popleft()
    yield from waiting


def _program(problem: Problem, solution: str) -> str:
    """The scripts have nothing above a function of the benchmark but their own imports."""
    return solution if problem.source == "ult" else problem.preamble + solution


def evaluate_conversations(
    problems: Sequence[Problem],
    mutated: Sequence[Problem],
    player: Player,
    judge: Judge,
    journal: Journal,
    advance: Advance,
) -> dict[str, Any]:
    """Figures over all functions: whatever does not run passes no test. Those of `mutated` may enter mut@5.

    Raises SandboxError if the judge fails, UserError where cosmic-ray is missing, and what the player raises.
    """

    def ask(asked: Sequence[Problem], texts: Mapping[Problem, Sequence[str]]) -> Iterator[tuple[Problem, str]]:
        requests = [conversation_request(problem, [spoken(text) for text in texts[problem]]) for problem in asked]
        for i, (response,) in player.test_functions(requests):
            yield asked[i], response.text

    responses = journal.rounds(RESPONSES_FILE, problems, ROUNDS, ask)

    def judged(done: Collection[str]) -> Iterator[FunctionResult]:
        todo = {problem: texts for problem, texts in responses.items() if problem.id not in done}
        return score({p: read_tests(texts, p.entry_point) for p, texts in todo.items()}, mutated, judge, advance)

    results = journal.completed(RESULTS_FILE, FunctionResult, judged)
    scored = [results[problem.id] for problem in problems]
    figures = {name: asdict(value) for name, value in metrics_of(scored).items()}
    counts = {"problems": len(problems), "mutated": len(mutated), "entered": sum(r.mutants > 0 for r in scored)}
    return {"benchmarks": {"tests": counts | figures}}


def metrics_of(results: Sequence[FunctionResult]) -> dict[str, Estimate]:
    """pass@5 in percent; mut@5 and Mul, where a function enters mut@5."""
    passed = [result.passed / ROUNDS for result in results]
    killed = [result.killed / result.mutants if result.mutants else None for result in results]
    estimates = {"pass_at_5": estimate(passed)}
    if any(rate is not None for rate in killed):
        estimates |= {"mut_at_5": estimate(killed), "mul": estimate(passed, killed)}
    return estimates
