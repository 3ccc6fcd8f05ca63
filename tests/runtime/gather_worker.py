"""Run by test_gather.py in separate processes: one round that several hosts judge together.

Prints one JSON line {"rewards": every program's and suite's, question by question, "jobs": programs judged here,
"golden", "figures" and "questions": the golden tests played, an evaluation, and the questions trained on, where the
second host is too slow for any program; "shared" and "compiled": as `shared` says}.
Arguments: process count, process index and the coordinator's address.
"""

import json
import sys
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from game_config import game_config
from scripted import PROMPTS, scripted_game

from codea1_jax.config import Config, RewardConfig, RolloutConfig, load
from codea1_jax.evals.heldout import evaluate_programs, evaluate_tests, prepare
from codea1_jax.game.round import play_round
from codea1_jax.runtime.gather import gathered, is_mine
from codea1_jax.training.questions import Questions, load_questions
from data_pipeline import Problem
from sandbox import Execution, Outcome, SandboxPool, Status

ROOT = Path(__file__).parents[2]
PROGRAMS = ["def f(x): return x + {}", "def f(x): return x * x + {}", "def f(x) return x"]
SUITES = ["assert f(1) == 2\nassert f(0) == 3\nassert f('a') == 1", "assert f(2) == 5\nassert f(2) == 5"]
RULES = game_config(RolloutConfig(samples=3, suites=2))
BY_MUTANTS = RULES.model_copy(update={"rewards": RewardConfig(test_value="mutation")})


TOO_SLOW = Outcome(Status.TIMED_OUT)


class Counting(SandboxPool):
    """A pool that counts the programs it runs. Of a slow one every program runs out of time."""

    slow = False

    def __init__(self, **settings):
        super().__init__(**settings)
        self.ran = []

    @property
    def jobs(self):
        """Programs that were run; several threads submit them."""
        return len(self.ran)

    def submit(self, job):
        if job.program:
            self.ran.append(job.program)
        if self.slow:
            late: Future[Execution] = Future()
            late.set_result(Execution(TOO_SLOW, (TOO_SLOW,) * len(job.calls), 0.0))
            return late
        return super().submit(job)


def played() -> dict:
    """What this host has to tell."""
    golden = ("assert f(1) == 2", "assert f(3) == 4")
    problems = [Problem(str(n), f"Add {n}.", f"def f(x): return x + {n}", "f", golden) for n in range(5)]
    programs = {problem.question: [p.format(n) for p in PROGRAMS] for n, problem in enumerate(problems)}
    mutated = [replace(problem, mutants=(PROGRAMS[1].format(problem.id),)) for problem in problems]
    suites = {(question, program): SUITES for question, written in programs.items() for program in written}
    with Counting(workers=1, backend="process") as pool:
        game = scripted_game(pool, programs, suites, RULES)
        rounds = [
            play_round(game, problems, {}, (0,)),
            play_round(replace(game, test=None), problems, {}, (0,)),
            play_round(replace(game, config=BY_MUTANTS), mutated, {}, (0,)),
        ]
        judged = [program for each in rounds for question in each.questions for program in question.programs]
        rewards = [[program.reward, *(suite.reward.reward for suite in program.suites)] for program in judged]
        found = {"rewards": rewards, "jobs": pool.jobs}
        heldout = prepare(problems, pool)
        shown = {(p.question, p.solution): [*SUITES, *SUITES, ""] for p in problems}
        pool.slow = jax.process_index() == 1
        computed = [
            replace(problem, golden_tests=(*golden, f"assert f(2) == sum([2, {problem.id}])")) for problem in problems
        ]
        known = play_round(replace(game, test=None), computed, {}, (0,)).questions
        evaluated = scripted_game(pool, programs, shown)
        figures = evaluate_programs(evaluated.code, pool, heldout, 3, (0,))
        figures |= evaluate_tests(evaluated.test, pool, heldout, 2, 2, (0,))[0]
        trained_on = [p.id for p in questions(pool).train]
        return found | {"golden": [len(q.retrieved) for q in known], "figures": figures, "questions": trained_on}


def shared() -> dict:
    """Whether shares of many sizes, the second host's smaller, came through as they were, and the programs compiled."""
    programs: Counter[str] = Counter()
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: programs.update([event]))
    sizes = (1, 10, 100, 900, 1100, 1500, 1900, 2300, 4000)
    came_through = []
    for size in sizes:
        shares = {index: "x" * (size // (index + 1)) for index in range(jax.process_count())}
        mine = {index: share for index, share in shares.items() if is_mine(index)}
        came_through.append(gathered(partial(dict, mine)) == shares)
    return {"shared": came_through, "compiled": programs["/jax/core/compile/backend_compile_duration"]}


def questions(pool: SandboxPool) -> Questions:
    """Those of a file."""
    config = load(Config, "micro/a1", [f"data.source={ROOT / 'docs/problems.jsonl'}", "train.questions=1"])
    return load_questions(config, {"code": PROMPTS, "test": PROMPTS}, pool)


if __name__ == "__main__":
    address, count, index = sys.argv[1:]
    jax.distributed.initialize(address, int(count), int(index))
    print(json.dumps(shared() | played()))
