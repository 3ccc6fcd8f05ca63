"""UnLeakedTestBench as scored by scripts around pytest and cosmic-ray: the benchmark's own, and those of Code-A1.

A function's tests run together, below the scripts' imports, with `ON_FUNCTION` seconds for all: over that, none has
passed. pass@5 is the number of tests that pass, of five per function of the data. A function enters mut@5 if all its
tests pass, in `LONGEST` seconds. A mutant is killed unless pytest succeeds on it, with all tests, in `LONGEST` seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from codea1_jax.evals.scores.mutants import make_mutants
from codea1_jax.evals.scores.mutate import Mutant
from codea1_jax.evals.scores.pytest_jobs import PytestRun, TestModules, pytest_job, read_run
from codea1_jax.evals.scores.unleaked import CORRECT, NONE, WRONG, FunctionResult
from data_pipeline import Problem
from sandbox import Judge

LONGEST = 10.0  # seconds that the tests may take together on a mutant
ON_FUNCTION = 30.0  # and on the function itself
AHEAD = 2_048  # mutants that the judge is given early, so that many cores do not wait for one that never ends
FUNCTIONS_AHEAD = 128  # the same of functions: their results are kept as they come

Advance = Callable[[int, int, str], None]  # shows how many are done, of how many, of what

T = TypeVar("T")


@dataclass(frozen=True)
class WrittenTests:
    """A function's responses as a protocol reads them: their texts ("": no test), and the modules that they make.

    `modules` has one id for each text that is a test, in order. every_test_counts: towards pass@5, whichever response
    it comes from; else a response counts once, if all its tests pass.
    """

    texts: tuple[str, ...]
    modules: TestModules
    every_test_counts: bool


Read = Callable[[Sequence[str], str], WrittenTests]  # (responses, the function's name) ->


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
    for problem, killed in _kills({p: (m, written[p].modules) for p, m in mutants.items()}, judge, advance):
        yield replace(entered[problem], mutants=len(mutants[problem]), killed=killed)


def _runs(written: Mapping[Problem, WrittenTests], judge: Judge) -> Iterator[tuple[Problem, PytestRun]]:
    """Every function's tests on the function, in order."""
    submitted = (
        (problem, tests, judge.submit(pytest_job(_program(problem, problem.solution), tests.modules, ON_FUNCTION)))
        for problem, tests in written.items()
    )
    for problem, tests, future in _ahead(submitted, FUNCTIONS_AHEAD, lambda _: 1):
        yield problem, read_run(future.result(), tests.modules)


def _kills(
    mutants: Mapping[Problem, tuple[Sequence[Mutant], TestModules]], judge: Judge, advance: Advance
) -> Iterator[tuple[Problem, int]]:
    """How many of its mutants each function's tests kill, in order; those of several functions run side by side."""
    done, total = 0, sum(len(each) for each, _ in mutants.values())
    submitted = (
        (problem, tests, [judge.submit(pytest_job(_program(problem, m.program), tests, LONGEST, "-x")) for m in each])
        for problem, (each, tests) in mutants.items()
    )
    for problem, tests, futures in _ahead(submitted, AHEAD, lambda item: len(item[2])):
        killed = 0
        for future in futures:
            killed += not read_run(future.result(), tests).succeeded
            done += 1
            advance(done, total, "mutants")
        yield problem, killed


def _ahead(items: Iterable[T], most: int, size: Callable[[T], int]) -> Iterator[T]:
    """The items, taken early: up to `most` of what `size` counts wait here, or one item."""
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


def _enters(tests: WrittenTests, run: PytestRun) -> bool:
    return all(tests.texts) and run.succeeded and run.passed > 0 and run.seconds <= LONGEST


def _result(problem: Problem, tests: WrittenTests, run: PytestRun) -> FunctionResult:
    """One outcome for each response, then one for every other test that has passed."""
    own = iter(run.own)
    outcomes = [(CORRECT if next(own) else WRONG) if text else NONE for text in tests.texts]
    outcomes += [CORRECT] * (run.passed - sum(run.own)) if tests.every_test_counts else []
    return FunctionResult(problem.id, tests.texts, tuple(outcomes), 0, 0)
