"""Which mutants a suite kills, judged in our jails, with the verdicts that cosmic-ray would give.

A mutant is killed if a test of the suite fails on it, raises, or runs out of time, or if the mutant does not even load:
whatever makes the test command of cosmic-ray end with an error. It survives otherwise. Mutants that mean the same as
the function can only survive. A suite without a test kills nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from codea1_jax.evals.scores.mutate import Mutant
from data_pipeline import Problem
from sandbox import Judge, JudgeJob, Limits, Test, Verdicts

LIMITS = Limits(memory_mb=1024)  # 1 second a call, as the benchmark gives each test


class PendingMutation:
    """A suite's runs on every mutant, already with the pool. `tests` hold under the function itself."""

    def __init__(self, judge: Judge, problem: Problem, mutants: Sequence[Mutant], tests: Sequence[Test]) -> None:
        judged = mutants if tests else ()
        self._mutants = len(mutants)
        self._runs: list[Future[Verdicts]] = [
            judge.submit_judge(JudgeJob(problem.preamble + mutant.program, tuple(tests), LIMITS, problem.entry_point))
            for mutant in judged
        ]

    def result(self) -> tuple[bool, ...]:
        """Whether each mutant is killed, in order. Raises SandboxError if the judge fails."""
        killed = [not all(verdict.passed for verdict in run.result().tests) for run in self._runs]
        return tuple(killed or [False] * self._mutants)
