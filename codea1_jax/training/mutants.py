"""Mutants of references, made before the first step: held out, for what a test finds; trained on, for a reward."""

from collections.abc import Sequence
from dataclasses import replace

from codea1_jax.common.activity import report
from codea1_jax.game.judging import book_tests, submit_calls
from codea1_jax.runtime.gather import gathered, is_mine
from data_pipeline import Problem
from data_pipeline.mutants import sample_mutants
from sandbox import Judge, Status, verdict_on

_DRAWN = 4  # mutants made for each that is asked for: some behave as others do, or as the reference


def with_mutants(problems: Sequence[Problem], judge: Judge, count: int, seed: int) -> tuple[Problem, ...]:
    """The problems, each with its own mutants, or with at most `count` of its solution; the same for the same seed.

    Of a solution's mutants those are left out that golden tests cannot tell from it or from another one, that do not
    load, and that run out of time or memory, as they would on the tests of every suite. Each host makes and judges
    those of its share. Raises SandboxError if the judge fails.
    """
    bare = {i: problem for i, problem in enumerate(problems) if not problem.mutants and is_mine(i)}

    def find() -> dict[int, tuple[str, ...]]:
        found = {}
        for done, (i, problem) in enumerate(bare.items()):
            report("judging mutants of", done, len(bare), "questions")
            found[i] = _distinct(judge, problem, sample_mutants(problem.solution, _DRAWN * count, seed))
        return found

    found = gathered(find)
    return tuple(replace(p, mutants=found[i][:count]) if i in found else p for i, p in enumerate(problems))


def _distinct(judge: Judge, problem: Problem, mutants: Sequence[str]) -> tuple[str, ...]:
    tests = book_tests(problem, judge)
    calls, expected = [test.call for test in tests], {test.call: test.expected for test in tests}
    pending = [(each, submit_calls(judge, problem, each, calls)) for each in mutants]
    distinct: dict[tuple[object, ...], str] = {}
    for mutant, outcomes in pending:
        found = outcomes.result(expected)
        by_call = found.by_call
        ends = tuple((by_call[call].status, by_call[call].value) for call in calls)
        spent = {Status.TIMED_OUT, Status.OUT_OF_MEMORY} & {status for status, _ in ends}
        if found.valid and not spent and not all(verdict_on(by_call[test.call], test).passed for test in tests):
            distinct.setdefault(ends, mutant)
    return tuple(distinct.values())
