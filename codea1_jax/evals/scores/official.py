"""UnLeakedTestBench with test functions, as its own scripts have it: any functions and classes that pytest collects.

A response is one test: its first Python block, else its first fenced block, else all of it. It is correct if
it holds a test function and all of them pass on the function, below the benchmark's imports. A mutant is killed if a
correct test does not pass on it, raises or takes too long. Tests see the function's real objects, as under pytest, so
they run in its process: here function and mutants are trusted, and a test that cheats fools only itself.

Not as under pytest: fixtures are unknown, a test that wants one is wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from codea1_jax.evals.scores.mutate import Mutant
from codea1_jax.evals.scores.unleaked import CORRECT, NONE, WRONG, FunctionResult
from codea1_jax.game.code_blocks import answer_in, code_blocks
from codea1_jax.game.parsing import parse_statements
from data_pipeline import Problem
from sandbox import CheckJob, CheckResult, Judge, Limits

MEMORY_MB = 4096
LONGEST = 10.0  # seconds that a test may take, as the benchmark's scripts allow
SLOWER = 10.0  # how much slower than the function a mutant may be; the scripts wait for LONGEST
SHORTEST = 1.0  # seconds that a test on a mutant may take at least

# Tests import the function from a module `mod`; nothing else of its program has a name.
_NAMES = '__import__("sys").modules["mod"] = __import__("sys").modules.pop("solution")\nimport pytest\n'


def read_test(response: str) -> str | None:
    """The code of a response, if pytest would collect a test in it."""
    answer = answer_in(response)
    blocks = code_blocks(answer)
    code = ([b.text for b in blocks if b.is_python] or [b.text for b in blocks] or [answer])[0]
    return code if any(_is_test(statement) for statement in parse_statements(code)) else None


def _is_test(statement: ast.stmt) -> bool:
    match statement:
        case ast.FunctionDef(name=name):
            return name.startswith("test")
        case ast.ClassDef(name=name, bases=bases):
            return name.startswith("Test") or any("TestCase" in ast.unparse(base) for base in bases)
        case _:
            return False


def score(
    responses: Mapping[Problem, Sequence[str]], mutants: Mapping[Problem, Sequence[Mutant]], judge: Judge
) -> Iterator[FunctionResult]:
    """Judges every function's responses; results in order. Raises SandboxError if the judge fails."""
    for problem, written in responses.items():
        yield _score(problem, written, mutants[problem], judge)


def _score(problem: Problem, responses: Sequence[str], mutants: Sequence[Mutant], judge: Judge) -> FunctionResult:
    tests = [read_test(response) for response in responses]
    patient = _limits(LONGEST)
    pending = [judge.submit_check(_job(problem, problem.solution, test, patient)) if test else None for test in tests]
    results = [future.result() if future else None for future in pending]
    correct = {test: result for test, result in zip(tests, results, strict=True) if test and result and result.passed}
    return FunctionResult(
        task_id=problem.id,
        tests=tuple(test or "" for test in tests),
        outcomes=tuple(NONE if r is None else CORRECT if r.passed else WRONG for r in results),
        mutants=len(mutants),
        killed=len(mutants) - len(_survivors(problem, correct, mutants, judge)),
    )


def _survivors(
    problem: Problem, correct: Mapping[str, CheckResult], mutants: Sequence[Mutant], judge: Judge
) -> list[Mutant]:
    """The mutants that pass every test. Each test faces only those that passed the ones before."""
    alive = list(mutants)
    for test, on_function in correct.items():
        limits = _limits(min(LONGEST, max(SHORTEST, SLOWER * on_function.cpu_seconds)))
        pending = [judge.submit_check(_job(problem, mutant.program, test, limits)) for mutant in alive]
        alive = [mutant for mutant, check in zip(alive, pending, strict=True) if check.result().passed]
    return alive


def _job(problem: Problem, program: str, test: str, limits: Limits) -> CheckJob:
    check = f"{problem.preamble}{_NAMES}{test}"
    return CheckJob(problem.preamble + program, check, problem.entry_point, limits, in_process=True)


def _limits(seconds: float) -> Limits:
    return Limits(call_seconds=seconds, load_seconds=seconds, program_seconds=seconds, memory_mb=MEMORY_MB)
