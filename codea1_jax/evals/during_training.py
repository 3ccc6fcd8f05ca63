"""Evaluation of a run: held-out questions, and benchmarks by their own checks, from the same streams at every step."""

import time
from dataclasses import dataclass

from codea1_jax.config import EvalConfig, Role
from codea1_jax.evals.code import evaluate_benchmark
from codea1_jax.evals.heldout import HeldOut, evaluate_programs, evaluate_tests
from codea1_jax.game.round import Game
from data_pipeline import Problem
from data_pipeline.benchmark import Benchmark

HELDOUT_LOGPROB = "eval/heldout_logprob"  # nats per token of held-out golden tests: minus the held-out loss
EVAL_STREAM = 2**31 - 1  # no training step has this number


@dataclass(frozen=True)
class Evaluation:
    """What a run is measured by. roles: those that the method trains. suite_size: K. supervised: it imitates."""

    config: EvalConfig
    heldout: HeldOut
    benchmark: Benchmark
    roles: tuple[Role, ...]
    suite_size: int
    supervised: bool

    @property
    def tested(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.heldout.problems if problem.golden_tests)

    @property
    def has_questions(self) -> bool:
        return bool(self.heldout.problems or self.benchmark.problems)

    def metrics(self, game: Game, *, is_last: bool = False) -> dict[str, float]:
        """The players' metrics, in percent; is_last: after the last step. Raises SandboxError if the judge fails."""
        started, config, benchmark = time.perf_counter(), self.config, self.benchmark
        if config.limits == "paper":
            benchmark = benchmark.within("paper_last" if is_last else "paper")
        metrics: dict[str, float] = {}
        if game.code is not None and self.benchmark.problems:
            metrics |= evaluate_benchmark(game.code, game.judge, benchmark, config.samples, (EVAL_STREAM, 2))
        if game.code is not None and self.heldout.problems:
            metrics |= evaluate_programs(game.code, game.judge, self.heldout, config.samples, (EVAL_STREAM, 0))
        if game.test is not None and self.heldout.problems:
            stream = (EVAL_STREAM, 1)
            metrics |= evaluate_tests(game.test, game.judge, self.heldout, config.suites, self.suite_size, stream)[0]
        return {**metrics, "seconds/eval": time.perf_counter() - started}
